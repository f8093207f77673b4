"""Plain Keras on the CPU: the baseline that the documents start from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ipu_runtime.engine.observer import Progress
from workbench.core.dataset import PreparedPart, load_prepared
from workbench.core.epoch_order import training_order
from workbench.core.events import Compiling
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.keras_training import train_and_evaluate
from workbench.core.model_builder import build_keras_model, compile_arguments
from workbench.core.planning import plan_experiment
from workbench.core.run_context import RunContext
from workbench.core.run_observer import RunObserver

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
    reporter = _Reporter(observer, spec)
    order = training_order(spec)
    batch_size = spec.data.batch_size

    def train_epoch(epoch: int) -> dict[str, float]:
        history = model.fit(
            _batches(data.train, order.indices(epoch), batch_size),
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


def _batches(part: PreparedPart, order: Any, batch_size: int) -> Any:
    """Return the batches of one pass; arrays are gathered batch by batch."""
    arrays = [part.x, part.y]
    if part.sample_weight is not None:
        arrays.append(part.sample_weight)
    tensors = [tf.convert_to_tensor(array) for array in arrays]
    indices = tf.range(len(part.x), dtype=tf.int64) if order is None else order
    chosen = tf.data.Dataset.from_tensor_slices(indices).batch(batch_size)
    gathered = chosen.map(
        lambda batch: tuple(tf.gather(tensor, batch) for tensor in tensors),
        num_parallel_calls=1,
    )
    return gathered.prefetch(2)


class _Reporter(keras.callbacks.Callback):
    """Streams a piece about ten times a second, and stops when asked to."""

    def __init__(self, observer: RunObserver, spec: ExperimentSpec) -> None:
        super().__init__()
        plan = plan_experiment(spec)
        self._observer = observer
        self._ipu_step_us = plan.ipu_step_us
        self._ipu_compile_s = plan.compile_s
        self._epoch = 0
        self._began_s = 0.0
        self._compiled = False
        self._reported_steps = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start the clock of the first piece."""
        self._epoch = epoch + 1
        self._reported_steps = 0
        self._began_s = time.perf_counter()
        if not self._compiled:
            self._observer.compiling("the training program")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report a piece when it is long enough or the epoch's last."""
        now = time.perf_counter()
        step, steps = batch + 1, int(self.params["steps"])
        if not self._compiled:
            seconds = now - self._began_s
            self._compiled = True
            self._observer.compiled("training", seconds, self._ipu_compile_s)
            # What the first step took was compilation, not training.
            self._began_s, self._reported_steps = now, step
        elif now - self._began_s >= _PIECE_S or step == steps:
            self._report(step, steps, logs or {}, now)
        if self._observer.should_stop():
            self.model.stop_training = True

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
