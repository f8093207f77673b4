"""Messages along edges: gathered and summed on the device, matrices by hand."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.applications.by_hand import (
    Adam,
    assert_close,
    batches_of,
    learn,
    run_example,
)

pytestmark = pytest.mark.slow

BATCH, EPOCHS, ATOMS, WIDTH = 4, 2, 3, 5
SIZES = ("--molecules", 32, "--atoms", ATOMS, "--width", WIDTH, "--batch-size", BATCH)


def _loss(weights: Any, batch: Any) -> Any:
    features, energy = batch
    x = tf.one_hot(features["atoms"], 5) @ weights[0]
    senders, receivers = (
        tf.one_hot(features["bonds"][..., end], ATOMS + 1) for end in (0, 1)
    )
    for first in (1, 5):
        kernel, bias, update, offset = weights[first : first + 4]
        ends = tf.concat([senders @ x, receivers @ x], axis=-1)
        messages = tf.nn.relu(ends @ kernel + bias)
        heard = tf.matmul(receivers, messages, transpose_a=True)
        x = tf.tanh(tf.concat([x, heard], axis=-1) @ update + offset)
    error = tf.abs(tf.reduce_sum(x, axis=1) @ weights[9] + weights[10] - energy)
    return tf.reduce_mean(tf.where(error > 1, error - 0.5, 0.5 * error**2))


@pytest.mark.parametrize(
    ("options", "per_update", "replicas"),
    [
        pytest.param((), 1, 1, marks=pytest.mark.thorough),
        pytest.param(("--ipus", 2), 2, 2, marks=pytest.mark.thorough),
        (("--ipus", 2, "--pipelined"), 4, 1),
    ],
)
def test_graphs_are_learnt_as_by_hand(
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[Any, ...],
    per_update: int,
    replicas: int,
) -> None:
    example = importlib.import_module("graph_network")
    start: list[np.ndarray] = []

    class Remembering(tf.keras.optimizers.Adam):
        def build(self, variables: Any) -> None:
            # A subclassed model has no weights before it sees data.
            start.extend(weight.numpy() for weight in variables)
            super().build(variables)

    monkeypatch.setattr(example.keras.optimizers, "Adam", Remembering)

    model, history = run_example("graph_network", *SIZES, "--epochs", EPOCHS, *options)

    data = example.draw_molecules(32, ATOMS)
    updates = batches_of(data, BATCH, per_update)
    weights, losses = learn(start, _loss, updates * EPOCHS, Adam(lambda _: 5e-3))
    assert_close(model, weights)
    shown = losses.reshape(EPOCHS, -1, replicas)[..., -1].mean(axis=1)
    np.testing.assert_allclose(history["loss"], shown, rtol=1e-4)
