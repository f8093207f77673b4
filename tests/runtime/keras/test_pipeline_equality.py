"""Pipelines, accumulation and a hand-written loop must make the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.build.programs import executor_choice
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode

pytestmark = pytest.mark.slow

BATCH, UPDATES, ACCUMULATION = 2, 2, 4
LAYERS = MOST_STAGES = 6
GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule
THEN = RecomputationMode.RecomputeThenBackpropagate
WITH = RecomputationMode.RecomputeAndBackpropagateInterleaved

_random = np.random.default_rng(5)
MOST_SAMPLES = BATCH * UPDATES * 2 * MOST_STAGES
X = _random.normal(size=(MOST_SAMPLES, 6, 6, 1)).astype(np.float32)
Y = _random.integers(0, 3, MOST_SAMPLES)


def small_cnn(dropout: float = 0.0, norm: bool = False) -> Any:
    """Seven layers, one of them a skip connection over two others."""
    keras.utils.set_random_seed(11)
    layers = keras.layers
    inputs = keras.Input((6, 6, 1))
    x = layers.Conv2D(2, 3, activation="relu", name="conv")(inputs)
    skip = layers.Flatten(name="flatten")(x)
    x = layers.BatchNormalization(name="norm")(skip) if norm else skip
    x = layers.Dropout(dropout, seed=3, name="dropout")(x)
    x = layers.Dense(32, activation="tanh", kernel_regularizer="l2", name="wide")(x)
    x = layers.Add(name="add")([x, skip])
    x = layers.Dense(3, activation="softmax", name="last")(x)
    return keras.Model(inputs, x)


def configure(ipus: int, recompute: bool = False) -> Any:
    """Return a strategy for a device with so many IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = recompute
    config.configure_ipu_system()
    return IPUStrategy()


def optimizer_named(name: str) -> Any:
    """Return an optimizer with a rate at which all of them move."""
    made = {
        "sgd": lambda: keras.optimizers.SGD(0.05),
        "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(0.01),
    }
    return made[name]()


def weights_of(model: Any) -> list[Any]:
    """Return the values of all weights, moving statistics included."""
    return [weight.numpy() for weight in model.weights]


@cache
def trained(
    cut: tuple[int, ...] | None = None,
    schedule: PipelineSchedule = GROUPED,
    mode: RecomputationMode | None = None,
    optimizer: str = "sgd",
    accumulation: int = ACCUMULATION,
    **model: Any,
) -> tuple[Any, list[Any]]:
    """Return the model after two updates of some micro-batches each."""
    batches = UPDATES * accumulation
    rows = slice(batches * BATCH)
    ipus = 1 if cut is None else 1 << max(cut).bit_length()
    with configure(ipus, recompute=mode is not None).scope():
        made = small_cnn(**model)
        if cut is None:
            made.set_gradient_accumulation_options(accumulation)
        else:
            stages = made.get_pipeline_stage_assignment()
            for item, stage in zip(stages, cut, strict=True):
                item.pipeline_stage = stage
            made.set_pipeline_stage_assignment(stages)
            made.set_pipelining_options(
                accumulation, pipeline_schedule=schedule, recomputation_mode=mode
            )
        made.compile(
            optimizer_named(optimizer),
            "sparse_categorical_crossentropy",
            steps_per_execution=batches,
        )
        made.fit(X[rows], Y[rows], batch_size=BATCH, shuffle=False, verbose=0)
    return made, weights_of(made)


@cache
def by_hand(optimizer: str = "sgd", accumulation: int = ACCUMULATION) -> list[Any]:
    """Train without any of the engine: eager, one micro-batch after the other."""
    model, steps = small_cnn(), optimizer_named(optimizer)
    loss_of = keras.losses.SparseCategoricalCrossentropy()
    sums = [np.zeros(weight.shape, np.float32) for weight in model.trainable_weights]
    for batch in range(UPDATES * accumulation):
        rows = slice(batch * BATCH, (batch + 1) * BATCH)
        with tf.GradientTape() as tape:
            loss = loss_of(Y[rows], model(X[rows], training=True))
            loss += sum(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        sums = [total + new for total, new in zip(sums, gradients, strict=True)]
        if (batch + 1) % accumulation == 0:
            steps.apply_gradients(zip(sums, model.trainable_variables, strict=True))
            sums = [np.zeros_like(total) for total in sums]
    return weights_of(model)


def assert_same(one: list[Any], other: list[Any]) -> None:
    """Demand equality up to the rounding of float32 sums."""
    for first, second in zip(one, other, strict=True):
        np.testing.assert_allclose(first, second, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_accumulation_equals_a_loop_written_by_hand(optimizer: str) -> None:
    model, weights = trained(optimizer=optimizer)
    assert int(model.optimizer.iterations) == UPDATES
    assert_same(weights, by_hand(optimizer))


@pytest.mark.parametrize(
    ("schedule", "mode"),
    [
        (GROUPED, THEN),
        (GROUPED, WITH),
        (INTERLEAVED, THEN),
        (SEQUENTIAL, WITH),
    ],
)
def test_every_recomputation_mode_makes_the_same_weights(
    schedule: PipelineSchedule, mode: RecomputationMode
) -> None:
    # Without recomputing, every schedule has its cuts below.
    _, weights = trained((0, 0, 0, 1, 1, 1), schedule, mode)
    assert_same(weights, by_hand())


def _schedule_of(cut: tuple[int, ...]) -> PipelineSchedule:
    return list(PipelineSchedule)[sum(cut) % len(PipelineSchedule)]


def _cuts() -> Iterator[tuple[int, ...]]:
    """Yield every way to cut the layers into two stages, so that any two layers are
    parted, and into more stages one way for each schedule."""
    seen = set()
    for stages in range(2, MOST_STAGES + 1):
        for starts in combinations(range(1, LAYERS), stages - 1):
            cut = tuple(sum(layer >= s for s in starts) for layer in range(LAYERS))
            held = (stages, starts if stages == 2 else _schedule_of(cut))
            if held not in seen:
                seen.add(held)
                yield cut


def _in_turn(cut: tuple[int, ...]) -> Any:
    """Leave all but one schedule to thorough tests where there are many stages."""
    stages = max(cut) + 1
    schedules = list(PipelineSchedule)
    if stages == 2 or _schedule_of(cut) is schedules[stages % len(schedules)]:
        return pytest.param(cut, id=str(cut))
    return pytest.param(cut, id=str(cut), marks=pytest.mark.thorough)


@pytest.mark.parametrize("cut", map(_in_turn, _cuts()))
def test_any_cut_makes_the_same_weights_and_stashes_what_is_planned(
    cut: tuple[int, ...],
) -> None:
    schedule = _schedule_of(cut)
    stages = max(cut) + 1
    model, weights = trained(cut, schedule, accumulation=2 * stages)
    assert_same(weights, by_hand(accumulation=2 * stages))
    factor = {GROUPED: 2, INTERLEAVED: 1, SEQUENTIAL: 0}[schedule]
    depths = [factor * (stages - 1 - stage) for stage in range(stages)]
    profile = model.ipu_profile()
    assert [stage.fifo_depth for stage in profile.plan.stages] == depths
    # Besides what waits in the FIFO there is the micro-batch that is worked on.
    assert list(profile.peak_stash) == [depth + 1 for depth in depths]


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_pipelines_keep_the_state_of_optimizers(optimizer: str) -> None:
    _, weights = trained((0, 0, 0, 1, 1, 1), optimizer=optimizer)
    assert_same(weights, by_hand(optimizer))


@pytest.mark.parametrize(
    ("schedule", "mode"), [(GROUPED, THEN), (INTERLEAVED, None), (SEQUENTIAL, WITH)]
)
def test_dropout_and_statistics_do_not_depend_on_the_schedule(
    schedule: PipelineSchedule, mode: RecomputationMode | None
) -> None:
    _, plain = trained(dropout=0.5, norm=True)
    _, piped = trained((0, 0, 0, 0, 1, 1, 1), schedule, mode, dropout=0.5, norm=True)
    assert_same(plain, piped)
    _, without = trained(norm=True)
    assert not np.allclose(plain[-2], without[-2], atol=1e-4)


def test_looking_outside_between_actions_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = (0, 0, 0, 0, 1, 1, 1)
    _, weights = trained(cut, GROUPED, THEN, dropout=0.5, norm=True)
    monkeypatch.setattr(executor_choice, "_LONG_RUN_FLOPS", 0)
    _, others = trained.__wrapped__(cut, GROUPED, THEN, dropout=0.5, norm=True)
    assert_same(weights, others)
