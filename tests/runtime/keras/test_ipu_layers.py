"""IPU-specific layers and optimizers against the stock ones."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.addons.keras import layers
from ipu_runtime.keras import optimizers
from ipu_runtime.keras.layers import CaptureUpstreamGradients

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)


def same_function(ours: Any, stock: Any, x: np.ndarray) -> None:
    ours.build(x.shape)
    stock.build(x.shape)
    stock.set_weights(ours.get_weights())
    np.testing.assert_allclose(ours(x), stock(x), rtol=1e-5, atol=1e-6)


def test_recurrent_layers_equal_keras() -> None:
    x = RNG.normal(size=(2, 5, 3)).astype(np.float32)
    same_function(layers.LSTM(4), keras.layers.LSTM(4), x)
    same_function(layers.GRU(4), keras.layers.GRU(4), x)


def test_lstm_returns_and_takes_its_state() -> None:
    x = RNG.normal(size=(2, 6, 3)).astype(np.float32)
    lstm = layers.PopnnLSTM(4, return_sequences=True, return_state=True)
    whole, h, c = lstm(x)
    _, h1, c1 = lstm(x[:, :2])
    _, h2, c2 = lstm(x[:, 2:], initial_state=(h1, c1))
    np.testing.assert_allclose(h2, h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c2, c, rtol=1e-5, atol=1e-6)
    assert whole.shape == (2, 6, 4)


def test_lstm_in_a_functional_model_with_a_checkpoint() -> None:
    inputs = keras.Input((4, 3), batch_size=2)
    lstm = layers.LSTM(4, return_sequences=True, return_state=True)
    x, h, c = lstm(inputs, initial_state=None)
    h, c = layers.RecomputationCheckpoint()([h, c])
    x, _, _ = lstm(x[:, :, :3], initial_state=(h, c))
    model = keras.Model(inputs, x)
    assert model.output_shape == (2, 4, 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_bias": False},
        {"kernel_regularizer": "l2"},
        {"recurrent_dropout": 0.5},
        {"unroll": True},
        {"activation": "elu"},
        {"recurrent_activation": "relu"},
        {"dtype": "float64"},
    ],
)
def test_recurrent_layers_refuse_what_the_ipu_lacks(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="LSTM"):
        layers.LSTM(4, **settings)


def test_hard_sigmoid_gates_have_the_devices_slope() -> None:
    x = RNG.normal(size=(2, 1, 4)).astype(np.float32)
    layer = layers.LSTM(3, recurrent_activation="hard_sigmoid")
    result = layer(x)
    kernel, _, biases = layer.get_weights()
    i, _, candidate, o = np.split(x[:, 0] @ kernel + biases, 4, axis=1)
    gates = [np.clip(0.2 * item + 0.5, 0, 1) for item in (i, o)]
    expected = gates[1] * np.tanh(gates[0] * np.tanh(candidate))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    again = layers.LSTM.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_embedding_has_a_dense_gradient() -> None:
    layer = layers.Embedding(4, 2, serialization_factor=2)
    with tf.GradientTape() as tape:
        rows = layer(np.array([[3, 1, 3]]))
    gradient = tape.gradient(rows, layer.embeddings.value)
    np.testing.assert_array_equal(gradient, [[0, 0], [1, 1], [0, 0], [2, 2]])
    with pytest.raises(ValueError, match="must divide"):
        layers.Embedding(3, 2, serialization_factor=2)(np.array([[0]]))


def test_embedding_takes_rank_two_only() -> None:
    ids = np.array([[0, 2, 1]])
    same_function(layers.Embedding(3, 4), keras.layers.Embedding(3, 4), ids)
    with pytest.raises(ValueError, match="batch, length"):
        layers.Embedding(3, 4)(np.zeros((2, 3, 4), np.int32))
    with pytest.raises(ValueError, match="mask_zero"):
        layers.Embedding(3, 4, mask_zero=True)


def test_serial_dense_equals_dense() -> None:
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    same_function(layers.SerialDense(3, 2, "kernel_rows"), keras.layers.Dense(3), x)


@pytest.mark.parametrize("strided", [True, False])
def test_group_normalisation_by_hand(strided: bool) -> None:
    x = RNG.normal(size=(2, 3, 3, 6)).astype(np.float32)
    layer = layers.GroupNorm(groups=2, strided_channel_grouping=strided)
    result = np.array(layer(x))
    groups = [[0, 2, 4], [1, 3, 5]] if strided else [[0, 1, 2], [3, 4, 5]]
    for sample in range(2):
        for channels in groups:
            part = x[sample][..., channels]
            expected = (part - part.mean()) / np.sqrt(part.var() + 1e-3)
            np.testing.assert_allclose(
                result[sample][..., channels], expected, rtol=1e-4, atol=1e-5
            )


def test_layer_normalisation_hands_training_on_to_its_base() -> None:
    class Flattened(layers.LayerNormalization):
        def call(self, inputs: Any, training: Any = None) -> Any:
            rows = tf.reshape(inputs, (-1, inputs.shape[-1]))
            rows = super(layers.LayerNormalization, self).call(rows, training)
            return tf.reshape(rows, inputs.shape)

    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(Flattened()(x), expected, rtol=1e-4, atol=1e-5)


def test_instance_normalisation_is_per_channel() -> None:
    x = RNG.normal(size=(2, 4, 4, 3)).astype(np.float32)
    result = np.array(layers.InstanceNorm()(x))
    np.testing.assert_allclose(result.mean(axis=(1, 2)), 0.0, atol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [
        layers.LSTM(4, dropout=0.1),
        layers.Embedding(3, 4, serialization_factor=2),
        layers.SerialDense(3, 2, "kernel_rows"),
        layers.GroupNorm(groups=3),
        layers.Dropout(0.5, seed=[1, 2]),
    ],
)
def test_layers_can_be_made_from_their_configuration(layer: Any) -> None:
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_captured_layers_are_the_layer() -> None:
    dense = keras.layers.Dense(2)
    wrapped = CaptureUpstreamGradients(dense, tag="grad")
    x = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(wrapped(x), dense(x))
    with pytest.raises(ValueError, match="wraps a"):
        CaptureUpstreamGradients("dense")


GRADIENTS = (1.0, 2.0, 6.0)


@pytest.mark.parametrize(
    ("method", "step"), [("SUM", 9.0), ("MEAN", 3.0), ("RUNNING_MEAN", 3.0)]
)
def test_accumulating_optimizer_updates_once(method: str, step: float) -> None:
    inner = keras.optimizers.SGD(0.1)
    optimizer = optimizers.GradientAccumulationOptimizer(
        inner, len(GRADIENTS), reduction_method=method
    )
    variable = keras.Variable(1.0)
    values = []
    for _ in range(2):
        for gradient in GRADIENTS:
            optimizer.apply([keras.ops.convert_to_tensor(gradient)], [variable])
            values.append(float(variable.numpy()))
    one, two = 1.0 - 0.1 * step, 1.0 - 0.2 * step
    expected = [1.0, 1.0, one, one, one, two]
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-7)
    assert int(optimizer.iterations.numpy()) == 2


def test_one_mini_batch_means_the_optimizer_itself() -> None:
    inner = keras.optimizers.SGD()
    assert optimizers.GradientAccumulationOptimizer(inner, 1) is inner
    with pytest.raises(ValueError, match="num_mini_batches"):
        optimizers.GradientAccumulationOptimizer(inner, 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"increase_factor": 3},
        {"update_frequency": 0},
        {"ratio_threshold": 1.5},
        {"initial_loss_scaling_factor": 32768},
        {"initial_loss_scaling_factor": 0.3},
    ],
)
def test_loss_scaling_settings_are_checked(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=name):
        optimizers.ALSOptimizer(keras.optimizers.SGD(), **settings)


def test_loss_scaling_settings_are_fixed() -> None:
    optimizer = optimizers.ALSOptimizerSGD(0.5, update_frequency=4)
    assert optimizer.update_frequency == 4
    with pytest.raises(ValueError, match="update_frequency"):
        optimizer.update_frequency = 8
    variable = keras.Variable(1.0)
    optimizer.apply([keras.ops.convert_to_tensor(1.0)], [variable])
    assert float(variable.numpy()) == 0.5
    with pytest.raises(ValueError, match="ALSOptimizer"):
        optimizers.ALSGradientAccumulationOptimizer(keras.optimizers.SGD(), 2)


def test_arguments_of_layers_can_be_given_by_place() -> None:
    lstm = layers.LSTM(4, "relu", "sigmoid", True, "zeros", "identity", "ones", False)
    config = lstm.get_config()
    assert config["bias_initializer"]["class_name"] == "Ones"
    assert config["unit_forget_bias"] is False
    dense = layers.SerialDense(3, 1, "kernel_rows", "relu", False)
    assert (dense.activation, dense.use_bias) == (keras.activations.relu, False)
    norm = layers.InstanceNorm(1, False, True, 0.5)
    assert (norm.channels_axis, norm.center, norm.epsilon) == (1, False, 0.5)


def test_layer_norm_refuses_what_the_device_does_not_have() -> None:
    with pytest.raises(ValueError, match="beta_regularizer"):
        layers.LayerNorm(beta_regularizer="l2")


def test_both_seeds_of_a_recurrent_layer_are_taken() -> None:
    lstm = layers.LSTM(4, dropout=0.5, dropout_seed=(1, 2), seed=3)
    assert lstm.get_config()["seed"] == layers.LSTM(4, seed=(1, 2)).get_config()["seed"]


def test_what_has_no_effect_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    layers.GRU(4, partials_dtype="float16")
    assert "partials_dtype=" in caplog.text
