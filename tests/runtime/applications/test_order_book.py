"""Convolution, LSTM and attention over windows of a series, on one and two replicas."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.applications.by_hand import (
    Adam,
    assert_close,
    learn_model,
    run_example,
    twin,
)

pytestmark = pytest.mark.slow

BATCH, STEPS, EPOCHS, WINDOW, HORIZON = 4, 4, 2, 6, 3
ARGUMENTS = (
    *("--levels", 2, "--window", WINDOW, "--horizon", HORIZON, "--width", 4),
    *("--dropout", 0.0, "--batch-size", BATCH, "--steps", STEPS, "--epochs", EPOCHS),
)


def _windows(book: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cut the batches of an epoch out of a book, one by one."""
    middle = (book[:, 0] + book[:, 2]) / 2
    scaled = ((book - book.mean(axis=0)) / book.std(axis=0)).astype(np.float32)
    batches = []
    for first in range(0, BATCH * STEPS, BATCH):
        ends = [first + row + WINDOW - 1 for row in range(BATCH)]
        changes = np.array([middle[end + HORIZON] - middle[end] for end in ends])
        x = np.stack([scaled[:-HORIZON][end - WINDOW + 1 : end + 1] for end in ends])
        batches.append((x, np.where(changes > 0.3, 2, np.where(changes < -0.3, 0, 1))))
    return batches


def _loss(model: Any, batch: Any) -> Any:
    logits = model(batch[0])
    picked = tf.gather(tf.nn.log_softmax(logits), batch[1], batch_dims=1)
    return -tf.reduce_mean(picked)


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_series_is_learnt_as_by_hand(replicas: int) -> None:
    arguments = (*ARGUMENTS, "--replicas", replicas)

    model, history = run_example("order_book", *arguments)

    example = importlib.import_module("order_book")
    args = example.parse_arguments([str(item) for item in arguments])
    hand = twin("order_book", lambda module: module.build_model(args))
    length = BATCH * STEPS + WINDOW + HORIZON
    training, validation = (
        _windows(example.draw_book(length, 2, seed)) for seed in (0, 1)
    )
    updates = [training[n : n + replicas] for n in range(0, STEPS, replicas)]
    adam = Adam(lambda update: 1e-2)
    for epoch in range(EPOCHS):
        losses = learn_model(hand, _loss, updates, adam)
        assert history["loss"][epoch] == pytest.approx(losses.mean(), rel=1e-4)
        held_out = np.mean([_loss(hand, batch) for batch in validation])
        assert history["val_loss"][epoch] == pytest.approx(held_out, rel=1e-3)
    assert_close(model, [weight.numpy() for weight in hand.trainable_variables])
