"""Products that are summed in float16, against the same in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import scopes
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.utils import reset_ipu_configuration

pytestmark = pytest.mark.slow

HALF = {"partialsType": "half"}
_random = np.random.default_rng(8)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    keras.config.set_dtype_policy("float32")
    reset_ipu_configuration()


def numbers(*shape: int) -> Any:
    """Return float16 numbers whose sums of 16 products are exact in float32."""
    return (_random.integers(-64, 65, shape) / 16).astype(np.float16)


def blockwise(a: Any, b: Any) -> Any:
    """Multiply matrices, adding blocks of 16 to a float16 sum."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for first in range(0, a.shape[1], 16):
        left = a[:, first : first + 16].astype(np.float32)
        part = left @ b[first : first + 16].astype(np.float32)
        total = (total.astype(np.float32) + part).astype(np.float16)
    return total


def strategy_for(matmuls: Any = None, convolutions: Any = None) -> Any:
    """Return a strategy on a device with these options of the matrix unit."""
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.matmuls.poplar_options = matmuls or {}
    config.convolutions.poplar_options = convolutions or {}
    config.configure_ipu_system()
    return IPUStrategy()


def predicted(layer: Any, weights: Any, x: Any, **options: Any) -> Any:
    """Return what a layer makes in a model that computes in float16."""
    with strategy_for(**options).scope():
        keras.config.set_dtype_policy("mixed_float16")
        model = keras.Sequential([keras.Input(x.shape[1:]), layer()])
        model.set_weights([weights])
    return model.predict(x.astype(np.float32), batch_size=len(x), verbose=0)


def test_dense_layers_sum_blocks_in_float16() -> None:
    x, weights = numbers(9, 100), numbers(100, 7)

    def dense() -> Any:
        return keras.layers.Dense(7, use_bias=False)

    made = predicted(dense, weights, x, matmuls=HALF)
    np.testing.assert_array_equal(made, blockwise(x, weights))
    exact = x.astype(np.float32) @ weights.astype(np.float32)
    assert (made != exact.astype(np.float16)).any()
    other = predicted(dense, weights, x, convolutions=HALF)
    np.testing.assert_array_equal(other, exact.astype(np.float16))


@pytest.mark.parametrize("channels", [3, 24])
def test_convolutions_sum_blocks_in_float16(channels: int) -> None:
    x, weights = numbers(2, 6, 5, channels), numbers(3, 2, channels, 4)
    made = predicted(
        lambda: keras.layers.Conv2D(4, (3, 2), strides=(2, 1), use_bias=False),
        weights,
        x,
        convolutions=HALF,
    )
    rest = 8 if channels == 24 else 0
    taps = np.pad(weights, [(0, 0), (0, 0), (0, rest), (0, 0)]).reshape(-1, 4)
    images = np.pad(x, [(0, 0), (0, 0), (0, 0), (0, rest)])
    patches = [
        images[image, row : row + 3, column : column + 2].reshape(-1)
        for image in range(2)
        for row in (0, 2)
        for column in range(4)
    ]
    expected = blockwise(np.stack(patches), taps).reshape(2, 2, 4, 4)
    np.testing.assert_array_equal(made, expected)


def test_gradients_are_summed_in_float16_too() -> None:
    a, b, upstream = numbers(40, 50), numbers(50, 60), numbers(40, 60)
    with scopes.partials_type(np.float16), tf.GradientTape() as tape:
        left, right = tf.constant(a), tf.constant(b)
        tape.watch([left, right])
        made = tf.matmul(left, right)
    np.testing.assert_array_equal(made, blockwise(a, b))
    to_left, to_right = tape.gradient(made, [left, right], tf.constant(upstream))
    np.testing.assert_array_equal(to_left, blockwise(upstream, b.T))
    np.testing.assert_array_equal(to_right, blockwise(a.T, upstream))


def test_contractions_are_summed_as_the_matrix_products_they_are() -> None:
    a, b = numbers(2, 5, 3, 40), numbers(2, 6, 3, 40)
    kernel = numbers(40, 4)
    with scopes.partials_type(np.float16):
        scores = tf.einsum("BTNH,BSNH->BNTS", tf.constant(a), tf.constant(b)).numpy()
        dense = tf.tensordot(tf.constant(a), tf.constant(kernel), [[-1], [0]]).numpy()
    for batch in range(2):
        for head in range(3):
            expected = blockwise(a[batch, :, head], b[batch, :, head].T)
            np.testing.assert_array_equal(scores[batch, head], expected)
    expected = blockwise(a.reshape(-1, 40), kernel).reshape(2, 5, 3, 4)
    np.testing.assert_array_equal(dense, expected)


def test_float32_partials_can_be_asked_for_inside() -> None:
    a, b = numbers(4, 100), numbers(100, 4)
    with scopes.partials_type(np.float16), scopes.partials_type(np.float32):
        made = tf.matmul(tf.constant(a), tf.constant(b)).numpy()
    exact = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(made, exact.astype(np.float16))


def test_what_is_not_summed_in_float16_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x, kernel = numbers(1, 4, 4, 2), numbers(3, 3, 2, 1)
    with scopes.partials_type(np.float16):
        tf.nn.depthwise_conv2d(tf.constant(x), tf.constant(kernel), [1] * 4, "VALID")
    assert "depthwise_conv2d" in caplog.text


def test_models_train_with_half_partials() -> None:
    with strategy_for(HALF, HALF).scope():
        keras.utils.set_random_seed(1)
        keras.config.set_dtype_policy("mixed_float16")
        model = keras.Sequential(
            [
                keras.Input((8, 8, 4)),
                keras.layers.Conv2D(8, 3, activation="relu", groups=2),
                keras.layers.Flatten(),
                keras.layers.Dense(3),
            ]
        )
        model.compile(keras.optimizers.SGD(0.05), "mse", auto_scale_loss=False)
    x = numbers(16, 8, 8, 4).astype(np.float32) / 4
    y = numbers(16, 3).astype(np.float32)
    losses = model.fit(x, y, 8, 6, 0).history["loss"]
    assert losses[-1] < losses[0] / 2
