"""Loss scaling as scripts of Keras 2 did it gives the update without scaling."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_runtime
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.slow
ipu_runtime.install()

X = np.random.RandomState(0).rand(8, 3).astype(np.float32)
Y = np.random.RandomState(1).rand(8, 1).astype(np.float32)


class Doubling(keras.optimizers.LossScaleOptimizer):
    """Has an unscaling of its own, which Keras 3 alone would never ask for."""

    def __init__(self, inner_optimizer: Any) -> None:
        super().__init__(inner_optimizer, False, 64.0)

    def get_unscaled_gradients(self, grads: Any) -> Any:
        return [gradient / 32.0 for gradient in grads]


def _weights_after_fit(optimizer: Any) -> list[Any]:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((3,)), dense])
        model.compile(optimizer, "mse")
        model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    return [np.asarray(item) for item in model.get_weights()]


def _reference(factor: float = 1.0) -> list[Any]:
    kernel, bias = np.ones((3, 1)), np.zeros(1)
    for rows in (slice(0, 4), slice(4, 8)):
        error = 2.0 * (X[rows] @ kernel + bias - Y[rows]) / 4.0
        kernel = kernel - 0.1 * factor * X[rows].T @ error
        bias = bias - 0.1 * factor * error.sum(0)
    return [kernel, bias]


def _halved(pairs: Any) -> Any:
    return [(0.5 * gradient, weight) for gradient, weight in pairs]


def _halving() -> Any:
    return keras.optimizers.SGD(0.1, gradient_transformers=[_halved])


@pytest.mark.parametrize(
    ("make", "factor"),
    [
        (_halving, 0.5),
        (lambda: Doubling(_halving()), 1.0),
        (
            lambda: keras.optimizers.LossScaleOptimizer(
                keras.optimizers.SGD(tf.constant(0.1)), dynamic=False, initial_scale=8.0
            ),
            1.0,
        ),
    ],
    ids=["transformers", "own unscaling", "fixed scale"],
)
def test_scales_and_transformers_reach_the_update(make: Any, factor: float) -> None:
    for got, wanted in zip(_weights_after_fit(make()), _reference(factor), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_script_may_scale_and_unscale_by_itself(fixed: bool) -> None:
    options = {"dynamic": False, "initial_scale": 16.0} if fixed else {}
    optimizer: Any = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), **options
    )
    weight = keras.Variable(2.0)
    optimizer.build([weight])
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(weight.value**2)
        gradients = optimizer.get_unscaled_gradients(
            tape.gradient(loss, [weight.value])
        )
        optimizer.apply_gradients(zip(gradients, [weight], strict=True))
    assert float(weight.value) == pytest.approx(2.0 * 0.8**2)


def test_a_fixed_scale_stays_the_only_one_in_mixed_precision() -> None:
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), dynamic=False, initial_scale=8.0
    )
    # A dynamic scale, which begins at 2**15, would skip these updates.
    keras.config.set_dtype_policy("mixed_float16")
    try:
        weights = _weights_after_fit(optimizer)
    finally:
        keras.config.set_dtype_policy("float32")
    for got, wanted in zip(weights, _reference(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-2)
