"""Gradients of embeddings are dense on the device: rows that occur twice count once."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.slow

WORDS = np.array([[0, 0, 1], [2, 1, 2], [1, 0, 0], [2, 2, 2]], np.int32)


def _embedding() -> Any:
    return keras.layers.Embedding(4, 2, embeddings_initializer="ones")


def _by_hand(updates: list[np.ndarray]) -> np.ndarray:
    """Train by RMSprop's rule; the gradient of a row is the sum over its uses."""
    table, square = np.ones((4, 2)), np.zeros((4, 2))
    for words in updates:
        gradient = np.zeros_like(table)
        np.add.at(gradient, words.reshape(-1), 1 / words.size / 2)
        square = 0.9 * square + 0.1 * gradient**2
        table -= 0.1 * gradient / np.sqrt(square + 1e-7)
    return table


def _strategy(replicas: int) -> IPUStrategy:
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    return IPUStrategy()


def test_a_model_on_one_ipu_adds_up_the_uses_of_a_row() -> None:
    with _strategy(1).scope():
        model = keras.Sequential([keras.Input((3,), dtype="int32"), _embedding()])
        model.compile(
            keras.optimizers.RMSprop(0.1),
            loss=lambda y, p: keras.ops.mean(p),
            steps_per_execution=2,
        )
        targets = np.zeros(4, np.float32)
        model.fit(WORDS, targets, batch_size=2, shuffle=False, verbose=0)
    expected = _by_hand([WORDS[:2], WORDS[2:]])
    np.testing.assert_allclose(model.get_weights()[0], expected, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_loop_of_ones_own_adds_up_the_uses_of_a_row(replicas: int) -> None:
    strategy = _strategy(replicas)
    with strategy.scope():
        layer = _embedding()
        layer.build(None)
        optimizer = keras.optimizers.RMSprop(0.1)
        data = tf.data.Dataset.from_tensor_slices(WORDS)
        iterator = iter(data.batch(4 // replicas, drop_remainder=True))

        @tf.function(jit_compile=True)
        def step(iterator: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(layer(next(iterator))) / replicas
            gradients = tape.gradient(loss, layer.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, layer.trainable_variables, strict=True)
            )

        strategy.run(step, args=[iterator])
    np.testing.assert_allclose(layer.get_weights()[0], _by_hand([WORDS]), rtol=1e-5)
