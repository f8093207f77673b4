"""Keras tensors and variables where Keras 2 scripts expect those of TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import backend as K
from tensorflow.python import ipu

pytestmark = pytest.mark.slow

X = np.random.RandomState(0).rand(8, 4, 6).astype(np.float32)


def _attention(x: Any) -> Any:
    scores = tf.matmul(x, x, transpose_b=True) / tf.sqrt(6.0)
    weighted = tf.einsum("bij,bjk->bik", tf.nn.softmax(scores, axis=-1), x)
    return tf.concat([tf.reduce_mean(weighted, axis=1), x[:, 0]], axis=-1)


def _reshaping(x: Any) -> Any:
    batch, length, width = tf.shape(x)[0], x.shape[1], x.get_shape().as_list()[-1]
    halves = tf.split(tf.reshape(x, [batch, length, width // 2, 2]), 2, axis=-1)
    rows = tf.tile(tf.ones([1, length, width // 2]), [batch, 1, 1])
    return tf.squeeze(halves[0], axis=-1) + tf.cast(rows, tf.float32)


def _backend(x: Any) -> Any:
    centred = x - K.mean(x, axis=-1, keepdims=True)
    return K.concatenate([K.relu(centred), K.square(x)], axis=-1)


FUNCTIONS = [_attention, _reshaping, _backend]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_tensorflow_become_parts_of_models(
    function: Any, tmp_path: Path
) -> None:
    inputs = keras.Input((4, 6))
    model = keras.Model(inputs, function(inputs))
    expected = function(tf.constant(X))
    assert model.output_shape[1:] == expected.shape[1:]
    np.testing.assert_allclose(model(X), expected, rtol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(X), expected, rtol=1e-6)


def test_functions_of_tensorflow_belong_to_the_stage_they_are_called_in() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    keras.utils.set_random_seed(1)
    with ipu.ipu_strategy.IPUStrategy().scope():
        inputs = keras.Input((4, 6))
        with keras.ipu.PipelineStage(0):
            x = tf.nn.gelu(keras.layers.Dense(6)(inputs))
        with keras.ipu.PipelineStage(1):
            x = keras.layers.Dense(1)(tf.reduce_max(x, axis=1))
        model = keras.Model(inputs, x)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.compile("sgd", "mse", steps_per_execution=4)
        first = [tf.constant(weight) for weight in model.get_weights()]
        y = X[:, 0, :1]
        model.fit(X, y, batch_size=2, shuffle=False, verbose=0)
    with tf.GradientTape() as tape:
        tape.watch(first)
        hidden = tf.reduce_max(tf.nn.gelu(X @ first[0] + first[1]), axis=1)
        errors = (hidden @ first[2] + first[3] - y) ** 2
        loss = tf.reduce_sum(tf.reduce_mean(tf.reshape(errors, [4, 2]), axis=1))
    gradients = tape.gradient(loss, first)
    for after, before, gradient in zip(
        model.get_weights(), first, gradients, strict=True
    ):
        np.testing.assert_allclose(after, before - 0.01 * gradient, atol=1e-6)


def test_a_mistake_in_a_function_of_tensorflow_is_still_an_error() -> None:
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        tf.matmul(keras.Input((4, 6)), keras.Input((4, 6)))


def test_shapes_of_keras_tensors_are_tuples_that_know_more() -> None:
    tensor = keras.Input((4, 6))
    assert tensor.shape == (None, 4, 6)
    assert tensor.shape.as_list() == [None, 4, 6]
    assert tensor.shape.rank == K.ndim(tensor) == 3
    assert not tensor.get_shape().is_fully_defined()


def test_variables_know_what_variables_of_tensorflow_know() -> None:
    dense = keras.layers.Dense(3, name="own", dtype="float16")
    dense.build((None, 2))
    sizes = [
        weight.dtype.size * weight.get_shape().num_elements()
        for weight in dense.trainable_variables
    ]
    assert sizes == [12, 6]
    assert dense.kernel.dtype == "float16"
    assert dense.kernel.dtype == tf.float16
    assert dense.kernel.dtype.as_numpy_dtype is np.float16
    assert [weight.name for weight in dense.weights] == ["own/kernel:0", "own/bias:0"]
    assert dense.bias.read_value().shape == (3,)


def test_a_tape_watches_variables_of_keras() -> None:
    frozen = keras.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        tape.watch([frozen])
        square = frozen * frozen
    assert float(tape.gradient(square, frozen)) == 6.0
