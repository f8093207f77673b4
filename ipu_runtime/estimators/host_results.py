"""What an estimator leaves: evaluations on disk, predictions, a model to serve."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.frameworks.tensorflow_graphs import eagerly
from ipu_runtime.system.instance_exchange import mean_over_instances
from ipu_runtime.system.instances import Instance


def write_evaluation(
    model_dir: str, name: str | None, results: Mapping[str, Any]
) -> None:
    """Write metrics as summaries below the model directory."""
    directory = Path(model_dir) / (f"eval_{name}" if name else "eval")
    step = int(results["global_step"])
    values = [
        tf.compat.v1.Summary.Value(tag=tag, simple_value=float(value))
        for tag, value in results.items()
        if tag != "global_step" and np.ndim(value) == 0
    ]
    with tf.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter(str(directory))
    writer.add_summary(tf.compat.v1.Summary(value=values), step)
    writer.close()


def mean_results(results: Mapping[str, Any], instance: Instance) -> dict[str, Any]:
    """Return the means over all processes that run the same program."""
    if instance.count == 1:
        return dict(results)
    with eagerly():
        own = [tf.constant(value, tf.float64) for value in results.values()]
        means = [item.numpy() for item in mean_over_instances(own, instance)]
    return dict(zip(results, means, strict=True))


def predictions_of(
    stacked: Any, replicas: int, keys: Sequence[str] | str | None, single: bool
) -> Iterator[Any]:
    """Yield examples or batches from predictions stacked over a loop's iterations."""
    if isinstance(stacked, dict):
        chosen = _chosen(stacked, keys)
        named = {key: _batches(stacked[key], replicas) for key in chosen}
        for parts in zip(*named.values(), strict=True):
            batch = dict(zip(named, parts, strict=True))
            if single:
                for row in zip(*batch.values(), strict=True):
                    yield dict(zip(batch, row, strict=True))
            else:
                yield batch
        return
    if keys is not None:
        raise ValueError("predict_keys need a model that predicts a dict.")
    for batch in _batches(stacked, replicas):
        if single:
            yield from batch
        else:
            yield batch


def _chosen(stacked: Mapping[str, Any], keys: Sequence[str] | str | None) -> list[str]:
    wanted = [keys] if isinstance(keys, str) else list(keys or stacked)
    chosen = [key for key in stacked if key in wanted]
    if not chosen:
        raise ValueError(
            f"predict_keys {wanted} name no prediction; the model has "
            f"{', '.join(stacked)}."
        )
    return chosen


def _batches(array: Any, replicas: int) -> Any:
    """Return batches in the order of the data: iterations first, then replicas."""
    array = np.asarray(array)
    return array.reshape(-1, *array.shape[2:]) if replicas > 1 else array


def export_saved_model(
    base: str, receiver: Any, outputs: Any, checkpoint: str
) -> bytes:
    """Write the current graph with a checkpoint's values to a new directory."""
    directory = _new_directory(Path(base))
    inputs = receiver.receiver_tensors
    with tf.compat.v1.Session() as session:
        tf.compat.v1.train.Saver().restore(session, checkpoint)
        tf.compat.v1.saved_model.simple_save(
            session,
            str(directory),
            inputs if isinstance(inputs, dict) else {"input": inputs},
            outputs if isinstance(outputs, dict) else {"output": outputs},
        )
    return str(directory).encode()


def _new_directory(base: Path) -> Path:
    """Return a path named by the time, later than any that is there."""
    stamp = int(time.time())
    while (base / str(stamp)).exists():
        stamp += 1
    return base / str(stamp)
