"""Automatic loss scaling of float16 models, against the same in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.build.programs import executor_choice
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras import layers as ipu_layers
from ipu_runtime.keras import optimizers

pytestmark = pytest.mark.slow

RATE, BATCH, FEATURES = 0.5, 4, 8
_random = np.random.default_rng(3)
X = _random.integers(-8, 9, (64, FEATURES)).astype(np.float32) / 8
TINY_Y = np.float32(2.0**-24) * _random.integers(1, 4, (64, 1)).astype(np.float32)
Y = _random.integers(-4, 5, (64, 1)).astype(np.float32)


@pytest.fixture(autouse=True)
def _float32_afterwards() -> Iterator[None]:
    yield
    keras.config.set_dtype_policy("float32")


def reference(
    y: Any, updates: int, batches: int = 1, mean: bool = False, **settings: Any
) -> tuple[Any, list[float]]:
    """Train one linear layer from zero with float16 gradients, in NumPy alone.

    Returns its float32 weights, and the factor after every update.
    """
    frequency = settings.get("update_frequency", 8)
    edge = settings.get("histogram_bin_edge", 2**13)
    most = settings.get("max_loss_scaling_factor", 32768)
    accumulates = settings.get("accumulate_statistics_over_update_period", True)
    alpha = settings.get("lpf_alpha", 0.0)
    weights = np.zeros((FEATURES, 1), np.float32)
    factor = np.float32(settings.get("initial_loss_scaling_factor", 1))
    factors, histogram, retained = [], np.zeros(2), np.zeros(2)
    counted = 0
    for update in range(1, updates + 1):
        total = np.zeros_like(weights)
        for index in range(batches):
            start = ((update - 1) * batches + index) * BATCH
            x = X[start : start + BATCH].astype(np.float16)
            made = (x @ weights.astype(np.float16)).astype(np.float32)
            slope = 2 * (made - y[start : start + BATCH]) / BATCH * factor
            with np.errstate(over="ignore"):
                half = (
                    x.T.astype(np.float32) @ slope.astype(np.float16).astype(np.float32)
                ).astype(np.float16)
            large = np.count_nonzero(~(np.abs(half.astype(np.float32)) < edge))
            histogram += (half.size - large, large)
            total += half.astype(np.float32) / (batches if mean else 1)
        weights = weights - np.float32(RATE) * (total / factor)
        due = frequency == 1 or (counted > 0 and counted % frequency == 0)
        if due:
            retained = alpha * retained + (1 - alpha) * histogram
            ratio = retained[1] / retained.sum()
            wanted = factor / 2 if ratio > 10e-6 else factor * 2
            factor = np.float32(wanted) if 1 <= wanted < most else factor
        if due or not accumulates:
            histogram = np.zeros(2)
        counted = 0 if due else counted + 1
        factors.append(float(factor))
    return weights, factors


class Factors(keras.callbacks.Callback):
    """Notes the factor after every weight update."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note it."""
        factor = getattr(self.model.optimizer, "loss_scaling_factor", 1)
        self.seen.append(float(factor))


def strategy_for(ipus: int = 1) -> Any:
    """Return a strategy for a device with so many IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return IPUStrategy()


def linear_model(
    optimizer: Any,
    ipus: int = 1,
    steps: int = 1,
    policy: str = "mixed_float16",
    configure: Callable[[Any], None] = lambda model: None,
    layer: Callable[[Any], Any] = lambda layer: layer,
) -> Any:
    """Return a compiled linear layer that starts with zeros."""
    with strategy_for(ipus).scope():
        keras.config.set_dtype_policy(policy)
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential(
            [keras.Input((FEATURES,)), layer(dense), keras.layers.Activation("linear")]
        )
        configure(model)
        model.compile(optimizer, "mse", steps_per_execution=steps)
    return model


def train(model: Any, y: Any, batches: int) -> list[float]:
    """Train on consecutive batches; return the factor after every execution."""
    factors = Factors()
    rows = slice(batches * BATCH)
    model.fit(X[rows], y[rows], BATCH, 1, 0, [factors], shuffle=False)
    return factors.seen


def scaled_sgd(**settings: Any) -> Any:
    """Return SGD with automatic loss scaling."""
    return optimizers.ALSOptimizer(keras.optimizers.SGD(RATE), **settings)


def weights_of(model: Any) -> Any:
    """Return the weights of the layer."""
    return model.get_weights()[0].astype(np.float32)


PLAIN: list[tuple[Any, dict[str, Any]]] = [
    (TINY_Y, {"update_frequency": 1}),
    (TINY_Y, {"update_frequency": 2, "initial_loss_scaling_factor": 1024}),
    (TINY_Y, {"update_frequency": 1, "max_loss_scaling_factor": 16}),
    (Y, {"update_frequency": 3, "initial_loss_scaling_factor": 2048}),
    (Y, {"update_frequency": 1, "histogram_bin_edge": 8}),
    (
        Y,
        {
            "update_frequency": 3,
            "histogram_bin_edge": 8,
            "initial_loss_scaling_factor": 4,
            "accumulate_statistics_over_update_period": False,
        },
    ),
    (Y, {"update_frequency": 1, "histogram_bin_edge": 16, "lpf_alpha": 0.75}),
]


@pytest.mark.parametrize(("y", "settings"), PLAIN)
def test_training_is_that_of_numpy(y: Any, settings: dict[str, Any]) -> None:
    model = linear_model(scaled_sgd(**settings))
    factors = train(model, y, 16)
    weights, expected = reference(y, 16, **settings)
    assert factors == expected
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-3, atol=1e-12)


def test_compiled_loops_scale_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_choice, "_WORTH_COMPILING_BATCHES", 1)
    settings = {"update_frequency": 2, "histogram_bin_edge": 16}
    model = linear_model(scaled_sgd(**settings))
    factors = train(model, Y, 16)
    weights, expected = reference(Y, 16, **settings)
    assert factors == expected
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-3)


def test_the_factor_first_changes_after_a_whole_period() -> None:
    model = linear_model(scaled_sgd(update_frequency=8))
    assert train(model, TINY_Y, 16) == [1.0] * 8 + [2.0] * 8


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_gradients_that_are_too_large_saturate(policy: str) -> None:
    model = linear_model(scaled_sgd(initial_loss_scaling_factor=1024), policy=policy)
    history = model.fit(X[:BATCH], Y[:BATCH] * 2**14, BATCH, 2, 0, shuffle=False)
    assert np.isfinite(history.history["loss"]).all()
    largest = np.abs(weights_of(model)).max()
    assert largest == pytest.approx(2 * RATE * 65504 / 1024, rel=0.5)


def test_scaled_gradients_are_those_of_the_scaled_loss() -> None:
    optimizer = scaled_sgd(initial_loss_scaling_factor=64)
    weight = keras.Variable([1.0, 2.0])

    @tf.function
    def gradients() -> Any:
        return optimizer.get_gradients(tf.reduce_sum(weight.value**2), [weight])

    np.testing.assert_array_equal(gradients(), [[128, 256]])


def test_small_gradients_survive_only_when_scaled() -> None:
    scaled = linear_model(scaled_sgd(initial_loss_scaling_factor=1024))
    train(scaled, TINY_Y, 1)
    plain = linear_model("sgd")
    plain.compile(keras.optimizers.SGD(RATE), "mse", auto_scale_loss=False)
    train(plain, TINY_Y, 1)
    exact = linear_model(keras.optimizers.SGD(RATE), policy="float32")
    train(exact, TINY_Y, 1)
    np.testing.assert_allclose(weights_of(scaled), weights_of(exact), rtol=2e-3)
    assert np.abs(weights_of(plain) - weights_of(exact)).max() > 1e-8


def test_float16_weights_are_updated_with_unscaled_gradients() -> None:
    settings = {"update_frequency": 2, "initial_loss_scaling_factor": 64}
    model = linear_model(scaled_sgd(**settings), policy="float16")
    assert train(model, Y, 8) == reference(Y, 8, **settings)[1]
    expected, _ = reference(Y, 8, **settings)
    np.testing.assert_allclose(weights_of(model), expected, rtol=2e-2, atol=2e-3)


def pipelined(model: Any) -> None:
    """Put the two layers of a model on two IPUs."""
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=4,
        gradient_accumulation_reduction_method="mean",
    )


def accumulating(model: Any) -> None:
    """Let a model accumulate four micro-batches."""
    model.set_gradient_accumulation_options(4, "mean")


def in_optimizer(**settings: Any) -> Any:
    """Return an optimizer that accumulates four micro-batches itself."""
    return optimizers.ALSGradientAccumulationOptimizer(
        scaled_sgd(**settings), 4, reduction_method="mean"
    )


ACCUMULATED = {"update_frequency": 1, "histogram_bin_edge": 16.0}


@pytest.mark.parametrize(
    ("optimizer", "ipus", "steps", "configure"),
    [
        (scaled_sgd, 1, 4, accumulating),
        (scaled_sgd, 2, 4, pipelined),
        (in_optimizer, 1, 4, lambda model: None),
    ],
    ids=["accumulated", "pipelined", "in the optimizer"],
)
def test_accumulated_training_is_that_of_numpy(
    optimizer: Any, ipus: int, steps: int, configure: Any
) -> None:
    model = linear_model(optimizer(**ACCUMULATED), ipus, steps, configure=configure)
    factors = train(model, Y, 16)
    weights, expected = reference(Y, 4, batches=4, mean=True, **ACCUMULATED)
    assert factors == expected
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-3)


def test_replicas_share_factor_and_statistics() -> None:
    model = linear_model(scaled_sgd(**ACCUMULATED), ipus=2)
    factors = train(model, Y, 16)
    weights, expected = reference(Y, 8, batches=2, **ACCUMULATED)
    assert factors == expected
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-3)


def test_float32_models_train_bit_for_bit_as_without() -> None:
    scaled = linear_model(scaled_sgd(update_frequency=1), policy="float32")
    train(scaled, Y, 16)
    plain = linear_model(keras.optimizers.SGD(RATE), policy="float32")
    train(plain, Y, 16)
    np.testing.assert_array_equal(weights_of(scaled), weights_of(plain))


def test_factor_and_statistics_are_saved(tmp_path: Path) -> None:
    settings = {"update_frequency": 4, "initial_loss_scaling_factor": 2}
    model = linear_model(scaled_sgd(**settings))
    train(model, Y, 7)
    optimizer = model.optimizer
    assert isinstance(optimizer, optimizers.ALSOptimizer)
    model.save(tmp_path / "model.keras")
    with strategy_for().scope():
        loaded = keras.models.load_model(tmp_path / "model.keras").optimizer
    assert float(loaded.loss_scaling_factor) == float(optimizer.loss_scaling_factor)
    assert float(loaded.loss_scaling_factor) == 4
    assert float(loaded.previous_loss_scaling_factor) == 2
    assert int(loaded.update_counter) == 2
    np.testing.assert_array_equal(loaded.histogram, [2 * FEATURES, 0])


def test_captured_gradients_alone_decide() -> None:
    # The upstream gradients are 2 / BATCH * -y * factor: 2 at most with factor 1.
    settings = {"update_frequency": 1, "captured_grads_only": True}
    for edge, expected in ((0.25, 1.0), (64.0, 2.0)):
        model = linear_model(
            scaled_sgd(**settings, histogram_bin_edge=edge),
            layer=ipu_layers.CaptureUpstreamGradients,
        )
        assert train(model, Y, 1) == [expected]


def test_gradients_of_an_activation_are_those_of_its_input() -> None:
    settings = {"captured_grads_only": True, "update_frequency": 2}
    model = linear_model(
        scaled_sgd(**settings), layer=ipu_layers.CaptureActivationGradients
    )
    train(model, Y, 1)
    np.testing.assert_array_equal(model.optimizer.histogram, [BATCH, 0])


def test_a_pipeline_counts_the_captured_gradients_of_every_micro_batch() -> None:
    model = linear_model(
        scaled_sgd(captured_grads_only=True, update_frequency=100),
        ipus=2,
        steps=4,
        configure=pipelined,
        layer=ipu_layers.CaptureUpstreamGradients,
    )
    train(model, Y, 16)
    np.testing.assert_array_equal(model.optimizer.histogram, [16 * BATCH, 0])


def test_keras_own_loss_scaling_is_that_of_stock_keras() -> None:
    # The first factors overflow, so that updates are left out and the factor falls.
    model = linear_model(keras.optimizers.SGD(RATE))
    stock = keras.models.clone_model(model)
    stock.compile(keras.optimizers.SGD(RATE), "mse")
    train(model, Y * 64, 16)
    keras.Model.fit(stock, X, Y * 64, BATCH, 1, 0, shuffle=False)
    assert float(model.optimizer.dynamic_scale) < 2**15
    assert float(model.optimizer.dynamic_scale) == float(stock.optimizer.dynamic_scale)
    np.testing.assert_array_equal(weights_of(model), weights_of(stock))


@pytest.mark.parametrize(
    ("ipus", "configure"), [(1, accumulating), (2, pipelined)], ids=["plain", "stages"]
)
def test_keras_own_loss_scaling_scales_accumulated_gradients_once(
    ipus: int, configure: Any
) -> None:
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(RATE), initial_scale=64, dynamic_growth_steps=2
    )
    model = linear_model(optimizer, ipus, 4, configure=configure)
    train(model, Y, 16)
    weights, _ = reference(Y, 4, batches=4, mean=True)
    assert float(optimizer.dynamic_scale) == 256
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-3)


def test_a_fixed_factor_of_a_wrapped_optimizer_is_applied_once() -> None:
    inner = keras.optimizers.SGD(RATE, loss_scale_factor=64)
    optimizer = optimizers.GradientAccumulationOptimizer(
        inner, 4, reduction_method="mean"
    )
    model = linear_model(optimizer, steps=4, policy="float32")
    train(model, Y, 16)
    weights, _ = reference(Y, 4, batches=4, mean=True)
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-2)


def test_scaling_twice_is_refused() -> None:
    for optimizer in (scaled_sgd(), in_optimizer()):
        with pytest.raises(ValueError, match="scaled twice"):
            keras.optimizers.LossScaleOptimizer(optimizer)
    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="auto_scale_loss"):
        model.compile(scaled_sgd(), "mse")


def test_keras_own_loss_scaling_replaces_a_fixed_factor_inside() -> None:
    inner = keras.optimizers.SGD(RATE, loss_scale_factor=64)
    accumulating = optimizers.GradientAccumulationOptimizer(
        inner, 4, reduction_method="mean"
    )
    optimizer = keras.optimizers.LossScaleOptimizer(accumulating, initial_scale=16)
    model = linear_model(optimizer, steps=4)
    train(model, Y, 16)
    weights, _ = reference(Y, 4, batches=4, mean=True)
    np.testing.assert_allclose(weights_of(model), weights, rtol=2e-3)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: optimizers.ALSOptimizerSGD(
            0.25, 0.5, update_frequency=3, lpf_alpha=0.5
        ),
        lambda: optimizers.ALSOptimizerAdam(beta_2=0.5, histogram_bin_edge=64),
        lambda: optimizers.ALSOptimizerRMSProp(
            keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5), centered=True
        ),
        lambda: optimizers.ALSOptimizer(keras.optimizers.Adam(0.5), 4),
        lambda: optimizers.ALSGradientAccumulationOptimizer(
            optimizers.ALSOptimizerSGD(momentum=0.5), 4, reduction_method="mean"
        ),
    ],
)
def test_optimizers_are_made_again_from_their_configuration(optimizer: Any) -> None:
    made = optimizer()
    config = made.get_config()
    again = type(made).from_config(dict(config))
    assert again.get_config() == config
    restored = keras.optimizers.deserialize(keras.optimizers.serialize(made))
    assert type(restored) is type(made)
    assert restored.get_config() == config


def test_what_the_optimizer_decides_cannot_be_assigned() -> None:
    optimizer = optimizers.ALSGradientAccumulationOptimizer(scaled_sgd(), 2)
    for owner in (optimizer, optimizer.als_optimizer):
        for name in ("loss_scaling_factor", "histogram", "decrease_factor"):
            with pytest.raises(ValueError, match=name):
                setattr(owner, name, 1)


def test_a_loop_of_ones_own_scales_and_counts_float16_gradients() -> None:
    optimizer = scaled_sgd(update_frequency=2, histogram_bin_edge=4)
    weight = keras.Variable(np.float16([1, 2]), dtype="float16")
    optimizer.build([weight])

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(tf.reduce_sum(weight.value**2))
        gradients = tape.gradient(loss, [weight.value])
        optimizer.apply_gradients([(gradients[0], weight)])

    step()
    np.testing.assert_array_equal(optimizer.histogram, [1, 1])
    np.testing.assert_array_equal(weight, [0, 0])
    step()
    np.testing.assert_array_equal(optimizer.histogram, [3, 1])
    step()
    assert float(optimizer.loss_scaling_factor) == 1.0
    np.testing.assert_array_equal(optimizer.histogram, [0, 0])
    optimizer.reset()
    assert int(optimizer.update_counter) == 0
