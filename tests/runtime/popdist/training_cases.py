"""Trainings whose result must not depend on how replicas are spread over processes.

Run as a script in two instances, it trains with one and with two replicas in each
instance, `few` cases if told so, and writes what comes out into a file for each. Then
the second instance leaves, and the first one writes what it hears when it goes on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import popdist
import popdist.tensorflow
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import horovod as hvd
from tensorflow.python.ipu.distributed.popdist_strategy import PopDistStrategy

from tests.runtime.popdist.session_cases import (
    BATCH,
    compiled,
    estimated,
    estimated_pipeline,
    refused,
    updated_on_host,
)

Results = dict[str, np.ndarray]

PLACE = (
    "POPDIST_NUM_TOTAL_REPLICAS",
    "POPDIST_NUM_LOCAL_REPLICAS",
    "POPDIST_NUM_IPUS_PER_REPLICA",
    "POPDIST_REPLICA_INDEX_OFFSET",
)
"""What is said about an instance's place."""
CASES = {
    1: ("single", "estimated", "updated on host"),
    2: ("accumulated", "pipelined", "custom", "estimated pipeline", "compiled"),
}
"""What is trained, by the replicas of each instance."""
FEW = {1: ("single",), 2: ("pipelined", "compiled")}
"""The same, for those in a hurry."""
UPDATES = 2
ACCUMULATED = 2


def all_results(local_replicas: int, cases: Sequence[str]) -> Results:
    """Train some cases; the environment tells how many instances there are."""
    results: Results = {}
    trainings: dict[str, tuple[int, Callable[[], list[Any]]]] = {
        "single": (1, lambda: _in_scope(_single)),
        "accumulated": (1, lambda: _in_scope(_accumulated)),
        "pipelined": (2, lambda: _in_scope(_pipelined)),
        "custom": (1, lambda: _in_scope(_custom_loop)),
        "estimated": (1, lambda: estimated(lambda: _data(1))),
        "updated on host": (1, lambda: updated_on_host(lambda: _data(1))),
        "estimated pipeline": (
            2,
            lambda: estimated_pipeline(lambda: _data(ACCUMULATED), ACCUMULATED),
        ),
        "compiled": (1, lambda: compiled(lambda: _data(1))),
    }
    for name in cases:
        ipus, train = trainings[name]
        _place(local_replicas, ipus)
        # Each instance draws weights of its own: those of the first must win.
        keras.utils.set_random_seed(popdist.getInstanceIndex())
        *weights, loss = map(np.asarray, train())
        results |= {f"{name} {i}": weight for i, weight in enumerate(weights)}
        results[f"loss of {name}"] = loss
    return results


def _place(local_replicas: int, ipus_per_replica: int) -> None:
    """Say what `poprun` would have said, had it been asked for these replicas."""
    count, index = popdist.getNumInstances(), popdist.getInstanceIndex()
    values = (
        local_replicas * count,
        local_replicas,
        ipus_per_replica,
        local_replicas * index,
    )
    os.environ.update(zip(PLACE, map(str, values), strict=True))
    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, ipus_per_replica)
    config.configure_ipu_system()


def _in_scope(train: Callable[[Any], list[Any]]) -> list[Any]:
    strategy = PopDistStrategy()
    with strategy.scope():
        return train(strategy)


def _data(micro_batches: int) -> tuple[Any, Any]:
    """Return the samples of this instance: those of its replicas, of every step."""
    total = popdist.getNumTotalReplicas()
    first, own = popdist.getReplicaIndexOffset(), popdist.getNumLocalReplicas()
    draw = np.random.default_rng(7)
    shape = (UPDATES * micro_batches, total, BATCH)
    x = draw.normal(size=(*shape, 6)).astype(np.float32)
    y = draw.integers(0, 3, size=shape).astype(np.int32)
    mine = slice(first, first + own)
    return x[:, mine].reshape(-1, 6), y[:, mine].reshape(-1)


def _layers() -> tuple[Any, Any]:
    inputs = keras.Input((6,))
    x = keras.layers.Dense(8, activation="relu")(inputs)
    x = keras.layers.BatchNormalization(momentum=0.5)(x)
    x = keras.layers.Dropout(0.3)(x)
    return inputs, keras.layers.Dense(3)(x)


def _fitted(model: Any, micro_batches: int) -> list[Any]:
    model.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=micro_batches,
    )
    history = model.fit(
        *_data(micro_batches), batch_size=BATCH, shuffle=False, verbose=0
    )
    return [*model.get_weights(), *history.history["loss"]]


def _single(strategy: Any) -> list[Any]:
    return _fitted(keras.Model(*_layers()), 1)


def _accumulated(strategy: Any) -> list[Any]:
    model = keras.Model(*_layers())
    model.set_gradient_accumulation_options(
        gradient_accumulation_steps_per_replica=ACCUMULATED
    )
    return _fitted(model, ACCUMULATED)


def _pipelined(strategy: Any) -> list[Any]:
    model = keras.Model(*_layers())
    assignment = model.get_pipeline_stage_assignment()
    for index, item in enumerate(assignment):
        item.pipeline_stage = int(index > 1)
    model.set_pipeline_stage_assignment(assignment)
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=ACCUMULATED,
        pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Sequential,
    )
    return _fitted(model, ACCUMULATED)


def _custom_loop(strategy: Any) -> list[Any]:
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(3),
        ]
    )
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)
    dataset = tf.data.Dataset.from_tensor_slices(_data(1))
    iterator = iter(dataset.batch(BATCH, drop_remainder=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def train(elements: Any) -> Any:
        total = tf.constant(0.0)
        for _ in tf.range(UPDATES):
            x, y = next(elements)
            with tf.GradientTape() as tape:
                value = loss(y, model(x, training=True))
                scaled = value / strategy.num_replicas_in_sync
            gradients = tape.gradient(scaled, model.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, model.trainable_variables, strict=True)
            )
            total += strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None)
        return total

    losses = strategy.run(train, args=(iterator,))
    return [*model.get_weights(), losses]


if __name__ == "__main__":
    folder, chosen = Path(sys.argv[1]), FEW if "few" in sys.argv[2:] else CASES
    network = os.readlink("/proc/self/ns/net")
    (folder / f"network_{popdist.getInstanceIndex()}.txt").write_text(network)
    for replicas, names in chosen.items():
        found = all_results(replicas, names)
        np.savez(folder / f"{replicas}_{popdist.getInstanceIndex()}.npz", **found)
    _place(1, 1)
    own = tf.constant([1.0, 2.0]) * (1 + popdist.getInstanceIndex())
    both = tf.function(lambda value: hvd.allreduce(value, hvd.Sum))
    np.savez(
        folder / f"host_{popdist.getInstanceIndex()}.npz",
        sum=both(own),
        mean=hvd.allreduce(own, hvd.Average),
        gathered=hvd.allgather(own),
        second=hvd.broadcast(own, root_rank=1),
        truth=hvd.broadcast(tf.constant(popdist.getInstanceIndex() == 0)),
    )
    told = list(refused())
    with PopDistStrategy().scope():
        model = keras.Model(*_layers())
        model.compile(keras.ipu.optimizers.ALSOptimizerSGD(), "mse")
        for train in (model.train_on_batch, model.fit):
            try:
                train(np.ones((32, 6)), np.ones((32, 3)))
            except NotImplementedError as error:
                told.append(str(error))
    (folder / f"refused_{popdist.getInstanceIndex()}.txt").write_text("\n".join(told))
    if popdist.getInstanceIndex() == 1:
        os._exit(0)
    try:
        all_results(1, ["single"])
    except RuntimeError as error:
        (folder / "lost.txt").write_text(str(error))
