"""The epochs of an estimator: data, checkpoints, events, resuming and evaluation."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_runtime.config import config_from_fields
from ipu_runtime.emulated_device import emulated_system
from ipu_runtime.engine.observer import Progress, observed_by
from ipu_runtime.ipu_run_config import IPURunConfig, RunConfig
from ipu_runtime.tf_estimator import CheckpointSaverListener
from workbench.core.checkpoint import Checkpoint, load, save
from workbench.core.dataset import PreparedPart, load_prepared
from workbench.core.epoch_order import training_order
from workbench.core.events import Compiling
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.locations import hardware_file
from workbench.core.planning import plan_experiment
from workbench.core.run_context import RunContext
from workbench.core.run_observer import RunObserver
from workbench.core.sample_counts import (
    count,
    evaluation_steps_per_execution,
    training_steps_per_execution,
)
from workbench.core.topology import topology

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
    with emulated_system(spec.execution.system, hardware_file()), _quiet_tensorflow():
        if spec.train.test_only:
            if tf.train.latest_checkpoint(str(model_dir)) is None:
                raise ValueError(
                    f"execution.model_dir: {model_dir} has no checkpoint to evaluate"
                )
        else:
            _train(spec, context, observer, make_estimator, model_dir, data.train)
        if spec.train.evaluate and not observer.should_stop():
            context.emit(Compiling("evaluating on the test data"))
            with observed_by(observer):
                results = _evaluate(spec, make_estimator, model_dir, data.test)
            if not observer.stopped:
                observer.evaluated(results)


@contextmanager
def _quiet_tensorflow() -> Iterator[None]:
    """Keep TensorFlow's notes about its older API off the terminal."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _train(
    spec: ExperimentSpec,
    context: RunContext,
    observer: RunObserver,
    make_estimator: MakeEstimator,
    model_dir: Path,
    part: PreparedPart,
) -> None:
    replicas = topology(spec).replicas
    epoch_steps = count(spec).train.batches // replicas
    epochs = spec.train.epochs - context.first_epoch + 1
    if epochs < 1:
        return
    metrics = _prepare_resume(context, model_dir)
    config = _run_config(
        spec, training_steps_per_execution(spec), model_dir, epoch_steps
    )
    estimator = make_estimator(config)
    # The run itself decides what a loss that is not a number does.
    estimator._stops_at_nan = False
    watch = _EpochWatch(spec, context, observer, model_dir, epoch_steps, metrics)
    order = training_order(spec)
    first = context.first_epoch

    def input_fn() -> Any:
        return _batches(
            part, spec.data.batch_size, range(first, first + epochs), order.indices
        )

    with observed_by(watch):
        estimator.train(input_fn, steps=epochs * epoch_steps, saving_listeners=[watch])


def _evaluate(
    spec: ExperimentSpec,
    make_estimator: MakeEstimator,
    model_dir: Path,
    part: PreparedPart,
) -> dict[str, float]:
    steps = count(spec).test.batches // topology(spec).replicas
    loop = evaluation_steps_per_execution(spec)
    estimator = make_estimator(_run_config(spec, loop, model_dir, None))
    indices = tf.range(len(part.x), dtype=tf.int64).numpy()
    results = estimator.evaluate(
        lambda: _batches(part, spec.data.batch_size, (0,), lambda _: indices),
        steps=steps,
    )
    return {name: float(value) for name, value in results.items()}


def _run_config(
    spec: ExperimentSpec, loop: int, model_dir: Path, save_steps: int | None
) -> RunConfig:
    shape = topology(spec)
    return RunConfig(
        IPURunConfig(
            iterations_per_loop=loop,
            ipu_options=config_from_fields(
                {"auto_select_ipus": shape.ipus, **spec.ipu}
            ),
            num_replicas=shape.replicas,
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
    if spec.execution.model_dir:
        return Path(spec.execution.model_dir).expanduser()
    return context.directory / "checkpoints" / "model"


def _prepare_resume(
    context: RunContext, model_dir: Path
) -> tuple[Mapping[str, Any], ...]:
    """Let the model directory continue with the last whole epoch."""
    if context.checkpoint is not None:
        checkpoint = load(context.checkpoint)
        path = model_dir / str(checkpoint.extra["model_checkpoint"])
        if not tf.io.gfile.glob(f"{path}.index"):
            raise ValueError(f"{path} is gone: the run cannot be resumed")
        v1.train.update_checkpoint_state(str(model_dir), str(path))
        return tuple(checkpoint.metrics)
    started = model_dir / "model.ckpt-0"
    inside_record = model_dir.is_relative_to(context.directory)
    if inside_record and tf.io.gfile.glob(f"{started}.index"):
        v1.train.update_checkpoint_state(str(model_dir), str(started))
    return ()


@dataclass
class _Totals:
    """Sums of an epoch's metrics over its steps."""

    step: int = 0
    sums: Mapping[str, float] | None = None


class _EpochWatch(CheckpointSaverListener):
    """Watches a training over several epochs: events and records for each of them.

    The estimator reports running means over the whole call; an epoch's own are their
    difference.
    """

    def __init__(
        self,
        spec: ExperimentSpec,
        context: RunContext,
        observer: RunObserver,
        model_dir: Path,
        epoch_steps: int,
        metrics: tuple[Mapping[str, Any], ...],
    ) -> None:
        self._context = context
        self._observer = observer
        self._model_dir = model_dir
        self._epoch_steps = epoch_steps
        self._metrics = list(metrics)
        self._ipu_step_us = plan_experiment(spec).ipu_step_us
        self._compile_s = plan_experiment(spec).compile_s
        self._epoch = context.first_epoch
        self._before = _Totals(0, {})
        self._now = _Totals(0, {})
        self._logs: dict[str, float] = {}

    def compiling(self, program: str) -> None:
        """Hand on that a program is about to be built."""
        self._observer.compiling(program)

    def compiled(self, program: str, seconds: float, ipu_compile_s: float) -> None:
        """Hand on that it is built; the first epoch begins."""
        del ipu_compile_s
        self._observer.compiled(program, seconds, self._compile_s)
        self._observer.epoch_began()

    def should_stop(self) -> bool:
        """Ask the run."""
        return self._observer.should_stop()

    def progressed(self, progress: Progress) -> None:
        """Report a piece as part of its epoch."""
        step = progress.step
        self._now = _Totals(step, {k: v * step for k, v in progress.logs.items()})
        done = step - self._before.step
        before = self._before.sums or {}
        self._logs = {
            name: (total - before.get(name, 0.0)) / done
            for name, total in (self._now.sums or {}).items()
        }
        if any(not math.isfinite(value) for value in self._logs.values()):
            # Differences of sums cannot recover; the mean so far is all there is.
            self._logs = dict(progress.logs)
        self._observer.progressed(
            replace(
                progress,
                epoch=self._epoch,
                step=done,
                steps=self._epoch_steps,
                logs=self._logs,
                ipu_step_us=self._ipu_step_us,
            )
        )

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """End an epoch when its checkpoint is there."""
        del session
        done = self._now.step - self._before.step
        if done != self._epoch_steps:
            return None
        self._observer.epoch_ended(self._epoch, self._logs)
        self._metrics.append({"epoch": self._epoch, **self._logs})
        extra = {"model_checkpoint": f"model.ckpt-{int(global_step_value)}"}
        record = Checkpoint(
            self._epoch, (), (), extra=extra, metrics=tuple(self._metrics)
        )
        save(self._context.directory / "checkpoints", record)
        self._epoch += 1
        self._before = self._now
        self._observer.epoch_began()
        return None
