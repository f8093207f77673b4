"""Plain Keras on the CPU: the baseline that the documents start from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ipu_runtime.engine.watch.checkpointer import PartOfEpoch, current_checkpointer
from ipu_runtime.engine.watch.observer import Progress
from ipu_runtime.frameworks.keras_training import build_for_training
from ipu_runtime.plan.plan import Plan
from workbench.data.dataset import PreparedPart, load_prepared
from workbench.data.epoch_order import training_order
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import Compiling
from workbench.runs.keras_epochs import train_and_evaluate
from workbench.runs.model_builder import build_keras_model, compile_arguments
from workbench.runs.run_context import RunContext
from workbench.runs.run_observer import RunObserver

_PIECE_S = 0.1


def train(spec: ExperimentSpec, context: RunContext) -> None:
    """Train and evaluate with `Model.fit` and `Model.evaluate`."""
    context.emit(Compiling("loading the data"))
    data = load_prepared(spec, lambda text: context.emit(Compiling(text)))
    context.emit(Compiling(f"building the model; {data.report()}"))
    model = build_keras_model(spec)
    # XLA is several times slower than oneDNN for convolutions on a CPU.
    model.compile(**compile_arguments(spec), jit_compile=False)
    observer = RunObserver(context)
    reporter = _Reporter(observer, context.plan)
    order = training_order(spec)
    batch_size = spec.data.batch_size

    def train_epoch(epoch: int) -> dict[str, float]:
        reporter.begun = begun = _begun()
        rest = order.indices(epoch)[begun.step * batch_size :]
        batches = _batches(data.train, rest, batch_size)
        # TensorFlow traces a step twice if the first time makes variables; and metrics
        # have no values to put back before they are there.
        build_for_training(model, batches.element_spec)
        history = model.fit(
            batches,
            initial_epoch=epoch - 1,
            epochs=epoch,
            shuffle=False,
            verbose=0,
            callbacks=[reporter],
        )
        return {name: float(values[-1]) for name, values in history.history.items()}

    def evaluate() -> dict[str, float]:
        batches = _batches(data.test, None, batch_size)
        logs: dict[str, float] = model.evaluate(
            batches, verbose=0, callbacks=[reporter], return_dict=True
        )
        return logs

    train_and_evaluate(spec, context, observer, model, train_epoch, evaluate)


def _begun() -> PartOfEpoch:
    keeper = current_checkpointer()
    return (keeper and keeper.begun()) or PartOfEpoch(0)


def _batches(part: PreparedPart, order: Any, batch_size: int) -> Any:
    """Return the batches of one pass; arrays are gathered batch by batch."""
    arrays: tuple[Any, ...] = (part.x, part.y)
    if part.sample_weight is not None:
        arrays += (part.sample_weight,)
    tensors = keras.tree.map_structure(tf.convert_to_tensor, arrays)
    indices = order
    if order is None:
        samples = len(keras.tree.flatten(part.x)[0])
        indices = tf.range(samples, dtype=tf.int64)
    chosen = tf.data.Dataset.from_tensor_slices(indices).batch(batch_size)
    gathered = chosen.map(
        lambda batch: keras.tree.map_structure(
            lambda tensor: tf.gather(tensor, batch), tensors
        ),
        num_parallel_calls=1,
    )
    return gathered.prefetch(2)


class _Reporter(keras.callbacks.Callback):
    """Streams a piece about ten times a second, stops when asked to, and lets the
    run be kept."""

    def __init__(self, observer: RunObserver, plan: Plan) -> None:
        super().__init__()
        self._observer = observer
        self._ipu_step_us = plan.ipu_step_us
        self._ipu_compile_s = plan.compile_s
        self._epoch = 0
        self._began_s = 0.0
        self._compiled = False
        self._reported_steps = 0
        self.begun = PartOfEpoch(0)
        """What the epoch goes on from."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start the clock of the first piece."""
        self._epoch = epoch + 1
        self._reported_steps = self.begun.step
        if self.begun.step:
            variables = self.model.metrics_variables
            for variable, value in zip(variables, self.begun.values, strict=True):
                variable.assign(value)
        self._began_s = time.perf_counter()
        if not self._compiled:
            self._observer.compiling("the training program")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report a piece when it is long enough or the epoch's last."""
        now = time.perf_counter()
        step = self.begun.step + batch + 1
        steps = self.begun.step + int(self.params["steps"])
        if not self._compiled:
            seconds = now - self._began_s
            self._compiled = True
            self._observer.compiled(
                "training", seconds, self._ipu_compile_s, "stock Keras"
            )
            # What the first step took was compilation, not training.
            self._began_s, self._reported_steps = now, step
        elif now - self._began_s >= _PIECE_S or step == steps:
            self._report(step, steps, logs or {}, now)
        asked_s = time.perf_counter()
        if self._observer.should_stop():
            self.model.stop_training = True
        keeper = current_checkpointer()
        if keeper is not None and step < steps and keeper.due():
            values = [item.numpy() for item in self.model.metrics_variables]
            keeper.checkpoint(PartOfEpoch(step, values))
        # What is told may wait, and neither a pause nor a checkpoint is step time.
        self._began_s += time.perf_counter() - asked_s

    def _report(
        self, step: int, steps: int, logs: Mapping[str, Any], now: float
    ) -> None:
        taken_ms = 1e3 * (now - self._began_s) / (step - self._reported_steps)
        numbers = {name: float(value) for name, value in logs.items()}
        self._observer.progressed(
            Progress(
                "train", self._epoch, step, steps, numbers, taken_ms, self._ipu_step_us
            )
        )
        self._began_s, self._reported_steps = time.perf_counter(), step

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Leave the evaluation when the run is stopped."""
        if self._observer.should_stop():
            self.model.stop_evaluating = True
