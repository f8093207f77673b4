"""Optimizers made, asked and derived as in Keras 2."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import backend as K
from tensorflow.python import ipu

from ipu_runtime.compat import habits

pytestmark = pytest.mark.slow

GRADIENT = np.array([1.0, -2.0], np.float32)


def _updated(optimizer: Any, updates: int = 3) -> np.ndarray:
    """Return a weight that was zero after some updates by the same gradient."""
    weight = keras.Variable(np.zeros(2, np.float32))
    for _ in range(updates):
        optimizer.apply_gradients([(tf.constant(GRADIENT), weight)])
    return weight.numpy()


def _strategy(ipus: int) -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def test_lr_is_the_learning_rate() -> None:
    optimizer = keras.optimizers.SGD(lr=0.5)
    assert K.get_value(optimizer.lr) == 0.5
    K.set_value(optimizer.lr, 0.25)
    np.testing.assert_allclose(_updated(optimizer, 1), -0.25 * GRADIENT)
    optimizer.lr = 2.0
    assert float(optimizer.learning_rate) == 2.0


def test_decay_lowers_the_rate_with_every_update() -> None:
    rates = [0.1 / (1 + 0.5 * update) for update in range(3)]
    decayed = _updated(keras.optimizers.SGD(learning_rate=0.1, decay=0.5))
    np.testing.assert_allclose(decayed, -sum(rates) * GRADIENT, rtol=1e-6)


def test_decay_counts_updates_and_not_batches_on_the_device() -> None:
    with _strategy(1).scope():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((1,)), dense])
        model.compile(
            keras.optimizers.SGD(lr=0.1, decay=1.0),
            loss=lambda y, p: p,
            steps_per_execution=6,
        )
        model.set_gradient_accumulation_options(2)
        ones = np.ones((6, 1), np.float32)
        model.fit(ones, ones, batch_size=1, verbose=0)
    expected = -sum(2 * 0.1 / (1 + update) for update in range(3))
    np.testing.assert_allclose(dense.kernel.numpy(), [[expected]], rtol=1e-6)


def test_a_schedule_of_ones_own_is_given_a_float_step() -> None:
    class Warmup(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return tf.math.minimum(tf.math.sqrt(step) * 0.1, 0.1)

    rates = [0.0, 0.1, 0.1]
    updated = _updated(keras.optimizers.SGD(Warmup()))
    np.testing.assert_allclose(updated, -sum(rates) * GRADIENT, rtol=1e-6)


def test_minimize_takes_a_function() -> None:
    weight = keras.Variable([3.0])
    keras.optimizers.SGD(0.5).minimize(lambda: weight * weight, [weight])
    assert weight.numpy() == [0.0]


def test_weights_of_an_optimizer_can_be_taken_and_given() -> None:
    first, second = (keras.optimizers.SGD(0.1, momentum=0.9) for _ in range(2))
    before = _updated(first)
    weight = keras.Variable(before)
    second.build([weight])
    second.set_weights(first.get_weights())
    second.apply_gradients([(tf.constant(GRADIENT), weight)])
    np.testing.assert_allclose(
        weight.numpy(), _updated(keras.optimizers.SGD(0.1, momentum=0.9), 4), rtol=1e-6
    )


@pytest.mark.parametrize(("summed", "expected"), [(True, -1.0), (False, 0.0)])
def test_gradients_that_are_reduced_already_are_not_summed_again(
    summed: bool, expected: float
) -> None:
    strategy = _strategy(2)
    with strategy.scope():
        weight = tf.Variable(0.0)
        optimizer = keras.optimizers.SGD(1.0)

        @tf.function
        def step() -> None:
            index = ipu.replication_ops.replication_index()
            optimizer.apply_gradients(
                [(tf.cast(index, tf.float32), weight)],
                name="update",
                experimental_aggregate_gradients=summed,
            )

        strategy.run(step)
    # The host sees the first replica, whose own gradient is 0; the other's is 1.
    assert float(weight) == expected


def test_a_fixed_loss_scale_changes_no_update() -> None:
    inner = keras.optimizers.SGD(0.5)
    optimizer = keras.mixed_precision.LossScaleOptimizer(
        inner, dynamic=False, initial_scale=128.0
    )
    assert float(optimizer.scale_loss(tf.constant(2.0))) == 256.0
    weight = keras.Variable(np.zeros(2, np.float32))
    optimizer.apply_gradients([(tf.constant(128 * GRADIENT), weight)])
    np.testing.assert_allclose(weight.numpy(), -0.5 * GRADIENT)


def test_what_to_write_today_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(habits, "_told", set())
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        for _ in range(3):
            keras.optimizers.Adam(lr=0.1)
    assert caplog.messages == [
        "Keras 2's `Optimizer(lr=)` is accepted here; Keras 3 wants `learning_rate=`."
    ]
