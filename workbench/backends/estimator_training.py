"""The epochs of an estimator: data, checkpoints, events, resuming and evaluation."""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_runtime.config import config_from_fields
from ipu_runtime.engine.watch.checkpointer import checkpointed_by
from ipu_runtime.engine.watch.observer import observed_by
from ipu_runtime.estimators.model_directory import newest_checkpoint
from ipu_runtime.ipu_run_config import IPURunConfig, RunConfig
from ipu_runtime.popdist.tensorflow import set_ipu_config
from ipu_runtime.system.emulated_device import emulated_system
from ipu_runtime.system.instances import Instance
from workbench.backends.epoch_watch import EpochWatch
from workbench.backends.tensorflow_files import explained_disk
from workbench.data.dataset import PreparedPart, load_prepared
from workbench.data.epoch_order import training_order
from workbench.data.sample_counts import (
    count,
    evaluation_steps_per_execution,
    is_steady,
    training_steps_per_execution,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.locations import hardware_file
from workbench.runs.events import Compiling
from workbench.runs.run_checkpoint import load
from workbench.runs.run_context import RunContext
from workbench.runs.run_observer import RunObserver
from workbench.store_json import RecordError

_UNFINISHED = re.compile(r"\.tempstate\d+$|^checkpoint\w*\.tmp[0-9a-f]{32}$")
"""How `SaveV2` and `atomic_write_string_to_file` name what they have not finished."""
MakeEstimator = Callable[[RunConfig], Any]
v1 = tf.compat.v1


def train_with_estimator(
    spec: ExperimentSpec, context: RunContext, make_estimator: MakeEstimator
) -> None:
    """Train in one call, with a checkpoint after every epoch, then evaluate."""
    context.emit(Compiling("loading the data"))
    data = load_prepared(spec, lambda text: context.emit(Compiling(text)))
    context.emit(Compiling(f"building the model; {data.report()}"))
    model_dir = _model_dir(spec, context)
    observer = RunObserver(context)
    with (
        emulated_system(
            spec.execution.system,
            hardware_file(),
            spec.execution.hosts,
            steady=is_steady(spec),
        ),
        _quiet_tensorflow(),
        _kept_in(model_dir),
    ):
        if spec.train.test_only:
            if newest_checkpoint(str(model_dir)) is None:
                raise ValueError(
                    f"execution.model_dir: {model_dir} has no checkpoint to evaluate"
                )
        else:
            _train(spec, context, observer, make_estimator, model_dir, data.train)
        alone = context.instance.index == 0
        if spec.train.evaluate and alone and not observer.should_stop():
            context.emit(Compiling("evaluating on the test data"))
            with observed_by(observer):
                results = _evaluate(
                    spec, context.instance, make_estimator, model_dir, data.test
                )
            if not observer.stopped:
                observer.evaluated(results)


@contextmanager
def _quiet_tensorflow() -> Iterator[None]:
    """Keep TensorFlow's notes about its older API off the terminal."""
    _tell_summaries_once()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@functools.cache
def _tell_summaries_once() -> None:
    """Let the thread that writes summaries fail without a word, from now on.

    `EventFileWriter.flush` raises the same to who trains, often before the thread has
    come to print it: what went wrong was said twice then, once as a traceback.
    """
    hook = threading.excepthook

    def unhandled(raised: threading.ExceptHookArgs) -> None:
        if raised.thread is None or raised.thread.name != "EventLoggerThread":
            hook(raised)

    threading.excepthook = unhandled


@contextmanager
def _kept_in(model_dir: Path) -> Iterator[None]:
    """Say of a full disk what it is, and give back what a cut checkpoint holds."""
    try:
        with explained_disk(model_dir):
            yield
    except RecordError:
        _remove_unfinished(model_dir)
        raise


def _remove_unfinished(model_dir: Path) -> None:
    for path in model_dir.glob("*"):
        if _UNFINISHED.search(path.name):
            path.unlink(missing_ok=True)


def _train(
    spec: ExperimentSpec,
    context: RunContext,
    observer: RunObserver,
    make_estimator: MakeEstimator,
    model_dir: Path,
    part: PreparedPart,
) -> None:
    epoch_steps = count(spec).train.batches // topology(spec).replicas
    first, last = context.first_epoch, spec.train.epochs
    if first > last:
        return
    watch = EpochWatch(spec, context, observer, model_dir, epoch_steps)
    _prepare_resume(context, watch, model_dir)
    if context.instance.count > 1 and spec.execution.checkpoint_every_s:
        text = "an estimator's instances keep whole epochs only"
        context.emit(Compiling(f"execution.checkpoint_every_s has no effect: {text}"))
    order, instance = training_order(spec), context.instance

    def train(epochs: range, skipped: int, loop: int) -> None:
        steps = len(epochs) * epoch_steps - skipped
        saved_every = min(steps, epoch_steps)
        config = _run_config(spec, instance, loop, model_dir, saved_every)
        estimator = make_estimator(config)
        # The run itself decides what a loss that is not a number does.
        estimator.stops_at_nan = False
        batch_size = spec.data.batch_size
        samples = skipped * batch_size * _own_replicas(spec, instance)

        def indices(epoch: int) -> Any:
            share = order.share(epoch, instance.index, instance.count)
            return share[samples if epoch == epochs[0] else 0 :]

        with observed_by(watch), checkpointed_by(watch):
            estimator.train(
                lambda: _batches(part, batch_size, epochs, indices),
                steps=steps,
                saving_listeners=[watch],
            )

    if watch.steps_before:
        # What is left of an epoch is a loop of its own.
        rest = epoch_steps - watch.steps_before
        train(range(first, first + 1), watch.steps_before, rest)
        first += 1
    if first <= last and not observer.stopped:
        train(range(first, last + 1), 0, training_steps_per_execution(spec))


def _own_replicas(spec: ExperimentSpec, instance: Instance) -> int:
    """Return the replicas of this process."""
    return topology(spec).replicas // instance.count


def _evaluate(
    spec: ExperimentSpec,
    instance: Instance,
    make_estimator: MakeEstimator,
    model_dir: Path,
    part: PreparedPart,
) -> dict[str, float]:
    steps = count(spec).test.batches // _own_replicas(spec, instance)
    loop = evaluation_steps_per_execution(spec)
    estimator = make_estimator(_run_config(spec, instance, loop, model_dir, None))
    indices = tf.range(len(part.x), dtype=tf.int64).numpy()
    results = estimator.evaluate(
        lambda: _batches(part, spec.data.batch_size, (0,), lambda _: indices),
        steps=steps,
    )
    return {name: float(value) for name, value in results.items()}


def _run_config(
    spec: ExperimentSpec,
    instance: Instance,
    loop: int,
    model_dir: Path,
    save_steps: int | None,
) -> RunConfig:
    shape = topology(spec)
    options = config_from_fields({"auto_select_ipus": shape.ipus, **spec.ipu})
    if instance.count > 1:
        set_ipu_config(options, configure_device=False)
    return RunConfig(
        IPURunConfig(
            iterations_per_loop=loop,
            ipu_options=options,
            num_replicas=_own_replicas(spec, instance),
            num_shards=shape.ipus_per_replica,
        ),
        model_dir=str(model_dir),
        tf_random_seed=spec.experiment.seed,
        save_checkpoints_steps=save_steps,
        save_summary_steps=None,
        log_step_count_steps=None,
        # Epochs end with a checkpoint; the graph in text would be written every time.
        checkpoint_save_graph_def=False,
    )


def _batches(
    part: PreparedPart,
    batch_size: int,
    epochs: Any,
    indices_of: Callable[[int], Any],
) -> Any:
    """Return batches of several epochs; arrays stay out of the graph."""

    def rows(epoch: Any) -> Any:
        return indices_of(int(epoch))

    def gather(chosen: Any) -> tuple[Any, Any]:
        return part.x[chosen], part.y[chosen]

    x, y = part.x, part.y

    def batch(chosen: Any) -> tuple[Any, Any]:
        features, labels = tf.numpy_function(
            gather, [chosen], (tf.as_dtype(x.dtype), tf.as_dtype(y.dtype))
        )
        features.set_shape((batch_size, *x.shape[1:]))
        labels.set_shape((batch_size, *y.shape[1:]))
        return features, labels

    numbers = tf.data.Dataset.from_tensor_slices(tf.constant(list(epochs), tf.int64))
    chosen = numbers.flat_map(
        lambda epoch: tf.data.Dataset.from_tensor_slices(
            tf.ensure_shape(tf.numpy_function(rows, [epoch], tf.int64), [None])
        )
    )
    return chosen.batch(batch_size, drop_remainder=True).map(batch).prefetch(2)


def _model_dir(spec: ExperimentSpec, context: RunContext) -> Path:
    path = context.directory / "checkpoints" / "model"
    if spec.execution.model_dir:
        path = Path(spec.execution.model_dir).expanduser()
    if not str(path).isprintable():
        raise RecordError(
            f"{path}: an estimator's checkpoints need a name in UTF-8; choose another "
            "directory with execution.model_dir or IPU_WORKBENCH_HOME"
        )
    return path


def _prepare_resume(context: RunContext, watch: EpochWatch, model_dir: Path) -> None:
    """Let the model directory continue with the run's last checkpoint."""
    if context.instance.index == 0:
        _remove_unfinished(model_dir)
    if context.checkpoint is not None:
        checkpoint = load(context.checkpoint)
        path = model_dir / str(checkpoint.extra["model_checkpoint"])
        if not tf.io.gfile.glob(f"{path}.index"):
            raise ValueError(f"{path} is gone: the run cannot be resumed")
        if context.instance.index == 0:
            v1.train.update_checkpoint_state(str(model_dir), str(path))
        watch.restore(checkpoint)
        return
    if context.instance.index:
        return
    started = model_dir / "model.ckpt-0"
    inside_record = model_dir.is_relative_to(context.directory)
    if inside_record and tf.io.gfile.glob(f"{started}.index"):
        v1.train.update_checkpoint_state(str(model_dir), str(started))
