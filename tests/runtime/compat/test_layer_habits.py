"""Layers, models, metrics and callbacks written and called as in Keras 2."""

from __future__ import annotations

from typing import Any

import keras as plain_keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import backend as K
from tensorflow.keras import layers
from tensorflow.keras.layers.experimental import preprocessing
from tensorflow.python import ipu

pytestmark = pytest.mark.slow

X = np.random.RandomState(0).rand(8, 3).astype(np.float32)


class Scaled(layers.Layer):
    """Names a weight first, keeps a variable of TensorFlow, adds metric and update."""

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            "kernel", [input_shape[-1], 2], initializer="ones"
        )
        self.scale = tf.Variable(2.0)
        self.calls = self.add_weight(
            name="calls", shape=(), initializer="zeros", trainable=False
        )
        super().build(input_shape)

    def call(self, x: Any, doubled: bool = False) -> Any:
        self.add_update(self.calls.assign_add(1.0))
        y = tf.matmul(x, self.kernel) * self.scale
        self.add_metric(tf.reduce_mean(y), name="level", aggregation="mean")
        return 2.0 * y if doubled else y


def _on_ipu() -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy().scope()


def test_a_layer_of_keras_two_trains_on_the_device() -> None:
    with _on_ipu():
        model = keras.Sequential([keras.Input(3), Scaled()])
        model.compile("sgd", "mse", experimental_steps_per_execution=2)
        y = np.zeros((8, 2), np.float32)
        history = model.fit(X, y, 4, shuffle=False, verbose=0, workers=2).history
    kernel, scale, levels = np.ones((3, 2)), 2.0, []
    for rows in (X[:4], X[4:]):
        hidden = rows @ kernel
        levels.append((hidden * scale).mean())
        errors = 2 * hidden * scale / hidden.size
        kernel, scale = (
            kernel - 0.01 * rows.T @ (errors * scale),
            scale - 0.01 * (errors * hidden).sum(),
        )
    layer = model.layers[0]
    np.testing.assert_allclose(layer.kernel.numpy(), kernel, rtol=1e-6)
    assert float(layer.scale) == pytest.approx(scale)
    assert float(layer.calls) == 2.0
    assert history["level"] == [pytest.approx(np.mean(levels))]


def test_arguments_that_are_no_tensors_may_come_in_order() -> None:
    layer = Scaled()
    np.testing.assert_allclose(layer(X, True), 2 * layer(X), rtol=1e-6)


def test_arguments_without_a_meaning_are_taken() -> None:
    layers.BatchNormalization(fused=True, renorm=False)
    layers.LSTM(2, time_major=False)
    with pytest.raises(ValueError, match="time_major"):
        layers.LSTM(2, time_major=True)


def test_layers_know_their_shapes() -> None:
    model = keras.Sequential([layers.Dense(5, batch_input_shape=(8, 3))])
    assert model.layers[0].input_shape == (None, 3)
    assert model.layers[0].output_shape == (None, 5)


def test_recurrent_layers_forget_when_the_model_is_told_to() -> None:
    layer = layers.LSTM(2, stateful=True)
    model = keras.Sequential([keras.Input(batch_shape=(1, 4, 1)), layer])
    first = model(X.reshape(-1, 4, 1)[:1])
    assert not np.allclose(model(X.reshape(-1, 4, 1)[:1]), first)
    model.reset_states()
    np.testing.assert_allclose(model(X.reshape(-1, 4, 1)[:1]), first, rtol=1e-6)


def test_metrics_of_batches_add_up_if_asked() -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    losses = [model.test_on_batch(rows, rows[:, :1]) for rows in (X[:4], X[4:])]
    model.reset_metrics()
    kept = [
        model.train_on_batch(rows, rows[:, :1], reset_metrics=False)
        for rows in (X[:4], X[4:])
    ]
    assert kept == pytest.approx([losses[0], np.mean(losses)], rel=1e-5)


def test_histories_have_the_learning_rate_under_its_older_name() -> None:
    with _on_ipu():
        model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
        model.compile("sgd", keras.losses.MeanSquaredError(reduction="auto"))
        schedule = keras.callbacks.LearningRateScheduler(
            lambda epoch: 0.5 / (epoch + 1)
        )
        history = model.fit(X, X[:, :1], 4, epochs=2, callbacks=[schedule], verbose=0)
    assert history.history["lr"] == [0.5, 0.25]


def test_metrics_and_losses_have_their_older_names() -> None:
    mean = keras.metrics.Mean()
    mean.update_state(3.0)
    mean.reset_states()
    assert float(mean.result()) == 0.0
    expected = ((X - 1) ** 2).mean(axis=1)
    for loss in (
        keras.losses.mean_squared_error,
        keras.losses.MSE,
        keras.metrics.mse,
        plain_keras.losses.mse,
    ):
        np.testing.assert_allclose(loss(np.ones_like(X), X), expected, rtol=1e-6)


def test_layers_and_schedules_that_were_experimental_are_found() -> None:
    np.testing.assert_allclose(preprocessing.Rescaling(2.0)(X), 2 * X)
    assert layers.experimental.preprocessing.RandomFlip is layers.RandomFlip
    schedules = keras.optimizers.schedules
    assert keras.experimental.CosineDecay is schedules.CosineDecay
    precision = keras.mixed_precision.experimental
    precision.set_policy(precision.Policy("mixed_float16"))
    assert layers.Dense(1).compute_dtype == "float16"
    precision.set_policy("float32")


def test_backend_functions_that_are_gone_still_answer() -> None:
    np.testing.assert_allclose(plain_keras.backend.sum(X), X.sum(), rtol=1e-6)
    inputs = keras.Input((3,))
    doubled = K.function([inputs], [inputs * 2.0])
    np.testing.assert_allclose(doubled([X])[0], 2 * X)
    assert K.in_train_phase(1, lambda: 2, training=True) == 1
    assert K.in_train_phase(1, lambda: 2) == 2
    assert K.learning_phase() == 0


def _judge_and_liar() -> tuple[Any, Any]:
    """Return a model, and another one that has the first inside, but not to train."""
    judge = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    judge.compile("sgd", "mse", steps_per_execution=2)
    judge.trainable = False
    liar = keras.Sequential([keras.Input((2,)), layers.Dense(3), judge])
    liar.compile("sgd", "mse", steps_per_execution=2)
    return judge, liar


@pytest.mark.parametrize("on_batch", [False, True])
def test_models_learn_what_was_trainable_when_they_were_compiled(
    on_batch: bool,
) -> None:
    with _on_ipu():
        judge, liar = _judge_and_liar()
        y = np.ones((8, 1), np.float32)

        def change(model: Any, x: np.ndarray) -> list[bool]:
            before = [judge.get_weights(), liar.layers[0].get_weights()]
            if on_batch:
                model.train_on_batch(x, y)
            else:
                model.fit(x, y, batch_size=4, verbose=0)
            after = [judge.get_weights(), liar.layers[0].get_weights()]
            pairs = zip(before, after, strict=True)
            return [not np.array_equal(old[0], new[0]) for old, new in pairs]

        for _ in range(2):
            assert change(judge, X) == [True, False]
            assert change(liar, X[:, :2]) == [False, True]
        assert not judge.trainable
