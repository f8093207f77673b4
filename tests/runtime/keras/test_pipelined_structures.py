"""Models that are more than a chain of layers: what crosses between stages."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.build.programs import executor_choice
from ipu_runtime.engine.run import epoch, piece_loop
from ipu_runtime.engine.watch import observer as watching
from ipu_runtime.engine.watch.observer import Progress, observed_by
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.pipeline_stage import PipelineStage

pytestmark = pytest.mark.slow

StageScope = Callable[[int], AbstractContextManager[Any]]

_random = np.random.default_rng(8)
WORDS = _random.integers(0, 10, (16, 5))
FEATURES = _random.normal(size=(16, 3)).astype(np.float32)
NUMBERS = _random.normal(size=(16, 1)).astype(np.float32)
CLASSES = _random.integers(0, 2, 16)


def strategy(ipus: int) -> Any:
    """Return a strategy for a device with so many IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return IPUStrategy()


def two_headed(stage: StageScope) -> Any:
    """Two inputs, a mask, a loss inside the first stage, two outputs."""
    layers = keras.layers
    words = keras.Input((5,), dtype="int32", name="words")
    features = keras.Input((3,), name="features")
    with stage(0):
        embedded = layers.Embedding(10, 4, mask_zero=True)(words)
        wide = layers.Dense(4, activity_regularizer="l2")(features)
    with stage(1):
        read = layers.LSTM(4)(embedded)
        both = layers.Concatenate()([read, wide])
        number = layers.Dense(1, name="number")(both)
        chosen = layers.Dense(2, activation="softmax", name="chosen")(both)
    return keras.Model(
        {"words": words, "features": features}, {"number": number, "chosen": chosen}
    )


def trained_two_headed(piped: bool) -> tuple[Any, dict[str, Any]]:
    """Return the model and its history, pipelined or with plain accumulation."""
    with strategy(2 if piped else 1).scope():
        keras.utils.set_random_seed(0)
        model = two_headed(PipelineStage if piped else lambda stage: nullcontext())
        if piped:
            model.set_pipelining_options(4)
        else:
            model.set_gradient_accumulation_options(4)
        model.compile(
            keras.optimizers.Adam(0.01),
            {"number": "mse", "chosen": "sparse_categorical_crossentropy"},
            loss_weights={"number": 1.0, "chosen": 0.5},
            metrics={"chosen": ["accuracy"]},
            steps_per_execution=8,
        )
        history = model.fit(
            {"words": WORDS, "features": FEATURES},
            {"number": NUMBERS, "chosen": CLASSES},
            batch_size=2,
            shuffle=False,
            verbose=0,
        )
    return model, history.history


def test_masks_losses_and_several_outputs_cross_stages() -> None:
    plain, plain_history = trained_two_headed(piped=False)
    piped, piped_history = trained_two_headed(piped=True)
    assert plain_history.keys() == piped_history.keys()
    for name, values in plain_history.items():
        np.testing.assert_allclose(values, piped_history[name], rtol=1e-5)
    for one, other in zip(plain.weights, piped.weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    piped.steps_per_execution = 2
    inputs = {"words": WORDS, "features": FEATURES}
    predicted = piped.predict(inputs, batch_size=2, verbose=0)
    for name, values in piped(inputs).items():
        np.testing.assert_allclose(predicted[name], values, rtol=1e-5, atol=1e-6)


class Subclassed(keras.Model):
    """A model whose calls are known only when it is traced."""

    def __init__(self, stage: StageScope) -> None:
        super().__init__()
        with stage(0):
            self.first = keras.layers.Dense(4, activation="relu")
            self.dropped = keras.layers.Dropout(0.5, seed=1)
        with stage(1):
            self.second = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """Take no `training`: layers know it from `fit`."""
        return self.second(self.dropped(self.first(inputs)))


def trained_subclass(piped: bool) -> list[Any]:
    """Return the weights of the subclassed model after two updates."""
    with strategy(2 if piped else 1).scope():
        keras.utils.set_random_seed(0)
        model = Subclassed(PipelineStage if piped else lambda stage: nullcontext())
        if piped:
            model.set_pipelining_options(4)
        else:
            model.set_gradient_accumulation_options(4)
        model.compile("sgd", "mse", steps_per_execution=8)
        model.fit(FEATURES, NUMBERS, batch_size=2, shuffle=False, verbose=0)
    return [weight.numpy() for weight in model.weights]


def test_subclassed_models_are_pipelined_alike() -> None:
    for one, other in zip(
        trained_subclass(piped=False), trained_subclass(piped=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


class _Watcher:
    """Keeps what it is told, and asks to stop after being asked some times."""

    def __init__(self, stop_after: int) -> None:
        self.seen: list[Progress] = []
        self._asked = 0
        self._stop_after = stop_after

    def compiling(self, program: str) -> None: ...

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None: ...

    def progressed(self, progress: Progress) -> None:
        self.seen.append(progress)

    def should_stop(self) -> bool:
        self._asked += 1
        return self._asked > self._stop_after


def _set_clock(monkeypatch: pytest.MonkeyPatch, now: Callable[[], float]) -> None:
    """Let all who time a run look at this clock."""
    for module in (epoch, piece_loop, watching):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=now))


@pytest.fixture
def long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every pipeline run look outside, as only long ones do."""
    monkeypatch.setattr(executor_choice, "_LONG_RUN_FLOPS", 0)


def _two_stages(observer: _Watcher, epochs: int = 1) -> Any:
    """Train a pipeline with somebody watching; return the model as it was and is."""
    with strategy(2).scope():
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)]
        )
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(4)
        model.compile("sgd", "mse", steps_per_execution=len(FEATURES))
        before = model.get_weights()
        with observed_by(observer):
            model.fit(FEATURES, NUMBERS, batch_size=1, epochs=epochs, verbose=0)
    return model, before


def test_a_pause_inside_a_long_piece_is_no_step_time(
    long_runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused_s = 0.0

    class Pausing(_Watcher):
        def should_stop(self) -> bool:
            nonlocal paused_s
            paused_s += 1000.0
            return super().should_stop()

    _set_clock(monkeypatch, lambda: time.perf_counter() + paused_s)
    monkeypatch.setattr(piece_loop, "LOOK_EVERY_S", 0.0)
    observer = Pausing(10**9)
    _two_stages(observer, epochs=2)
    times = [progress.host_step_ms for progress in observer.seen]
    assert times
    assert max(times) < 100_000


@pytest.mark.usefixtures("long_runs")
def test_a_long_run_is_left_in_the_middle_without_an_update() -> None:
    # It is asked once before the first run and then inside of it.
    model, before = _two_stages(_Watcher(stop_after=1))
    assert int(model.optimizer.iterations) == 0
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.usefixtures("long_runs")
def test_a_long_run_tells_its_own_loss_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Every look at the clock is 12 ms later: runs look outside all the time.
    ticks = count(step=0.012)
    _set_clock(monkeypatch, lambda: next(ticks))
    watcher = _Watcher(stop_after=10_000)
    _two_stages(watcher)
    ends = [seen for seen in watcher.seen if seen.step % 4 == 0]
    losses = [seen.logs["loss"] for seen in ends]
    assert len(set(losses)) == len(FEATURES) // 4 - 1
    assert all(seen.host_step_ms > 0 for seen in watcher.seen)


@pytest.mark.parametrize("options", [{}, {"strides": 1}, {"padding": "same"}])
def test_maxima_get_their_gradients_across_functions(options: dict[str, Any]) -> None:
    def build() -> Any:
        keras.utils.set_random_seed(0)
        return keras.Sequential(
            [
                keras.Input((7, 7, 2)),
                # Where it is 0, several values of a window are its maximum.
                keras.layers.Conv2D(4, 3, activation="relu"),
                keras.layers.MaxPooling2D(2, **options),
                keras.layers.Flatten(),
                keras.layers.Dense(1),
            ]
        )

    images = _random.normal(size=(16, 7, 7, 2)).astype(np.float32)
    with strategy(2).scope():
        model = build()
        model.set_pipeline_stage_assignment([0, 0, 0, 1])
        model.set_pipelining_options(4)
        model.compile(keras.optimizers.SGD(0.1), "mse", steps_per_execution=4)
        model.fit(images, NUMBERS, batch_size=4, shuffle=False, verbose=0)
    hand = build()
    with tf.GradientTape() as tape:
        batches = zip(np.split(images, 4), np.split(NUMBERS, 4), strict=True)
        loss = tf.add_n([tf.reduce_mean((hand(x) - y) ** 2) for x, y in batches])
    gradients = tape.gradient(loss, hand.trainable_variables)
    for got, weight, gradient in zip(
        model.get_weights(), hand.get_weights(), gradients, strict=True
    ):
        np.testing.assert_allclose(got, weight - 0.1 * gradient, rtol=1e-4, atol=1e-6)
