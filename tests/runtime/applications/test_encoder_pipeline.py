"""An encoder in four stages learns as plain Keras does, also in half precision."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.runtime.applications.by_hand import (
    Adam,
    Arrays,
    assert_close,
    batches_of,
    learn_model,
    run_example,
    twin,
)

pytestmark = pytest.mark.slow

BATCH, EPOCHS, SENTENCES, ACCUMULATE = 2, 2, 16, 4
SIZES = (
    *("--words", 6, "--length", 4, "--width", 8, "--heads", 2, "--dropout", 0.0),
    *("--sentences", SENTENCES, "--batch-size", BATCH, "--accumulate", ACCUMULATE),
    *("--epochs", EPOCHS, "--learning-rate", 0.01),
)
UPDATES = EPOCHS * SENTENCES // (BATCH * ACCUMULATE)
HALF = ("--precision", "mixed_float16")
KERNELS = {0, 1, 4, 6, 8, 10, 12, 14, 20, 22, 24, 26, 28, 30, 36}
"""Which weights are tables and kernels, and not biases or parts of norms."""


def _by_hand(
    rule: Any, precision: str = "float32", replicas: int = 1
) -> tuple[Any, np.ndarray]:
    """Train the same model with the same rule on the host."""
    example = importlib.import_module("encoder_pipeline")
    args = example.parse_arguments([str(item) for item in SIZES])
    keras.mixed_precision.set_global_policy(precision)
    model = twin("encoder_pipeline", lambda module: module.build_model(args))
    keras.mixed_precision.set_global_policy("float32")

    def loss(model: Any, batch: Any) -> Any:
        shown, words, gaps = batch
        guesses = tf.nn.log_softmax(model(shown))
        return -tf.reduce_mean(tf.gather(guesses, words, batch_dims=2) * gaps)

    data = example.write_sentences(args)
    updates = batches_of(data, BATCH, ACCUMULATE * replicas)
    losses = learn_model(model, loss, updates * EPOCHS, rule, share=1 / ACCUMULATE)
    # The loss that is shown is that of the last replica.
    return model, losses.reshape(EPOCHS, -1, replicas)[..., -1].mean(axis=1)


def _warm_up(update: int, updates: int = UPDATES) -> float:
    rising = updates // 4 + 1
    falling = (updates - update) / max(1, updates - rising)
    return 0.01 * min((update + 1) / rising, falling)


class LossScaled:
    """Divides by the scale of the loss, which is halved where it was too large."""

    def __init__(self, rule: Any, loss_scale: float = 2.0**15) -> None:
        self.rule, self.loss_scale = rule, loss_scale

    def __call__(self, weights: Arrays, gradients: Arrays) -> Arrays:
        if not all(np.isfinite(gradient).all() for gradient in gradients):
            self.loss_scale /= 2
            return weights
        return self.rule(weights, [item / self.loss_scale for item in gradients])


@pytest.mark.thorough
def test_half_precision_leaves_out_updates_that_overflow() -> None:
    model, history = run_example(
        "encoder_pipeline", *SIZES, *HALF, "--optimizer", "adam"
    )
    assert model.layers[2].compute_dtype == "float16"
    assert {weight.dtype for weight in model.trainable_variables} == {"float32"}
    rule = LossScaled(Adam(_warm_up, clipnorm=1.0))
    _, losses = _by_hand(rule, "mixed_float16")
    assert int(model.optimizer.iterations) == rule.rule.updates < UPDATES
    np.testing.assert_allclose(history["loss"], losses, rtol=5e-3)


class Lamb:
    """Layers move in relation to their size; biases and norms do not decay."""

    def __init__(self, updates: int = UPDATES) -> None:
        self.expected, self.updates = updates, 0
        self.moments: dict[int, tuple[Any, Any]] = {}

    def __call__(self, weights: Arrays, gradients: Arrays) -> Arrays:
        rate = _warm_up(self.updates, self.expected)
        self.updates += 1
        after = []
        for index, (weight, slope) in enumerate(zip(weights, gradients, strict=True)):
            m, v = self.moments.get(index, (0.0, 0.0))
            m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
            self.moments[index] = m, v
            spread = np.sqrt(v / (1 - 0.999**self.updates)) + 1e-6
            move = m / (1 - 0.9**self.updates) / spread
            if index in KERNELS:
                move = move + 0.01 * weight
            size, reach = np.linalg.norm(weight), np.linalg.norm(move)
            ratio = size / reach if size and reach else 1.0
            after.append((weight - rate * ratio * move).astype(np.float32))
        return after


@pytest.mark.parametrize(
    ("options", "replicas"),
    [
        (("--one-ipu",), 1),
        # Powers of two scale without rounding.
        pytest.param(
            ("--loss-scaling", 128, "--replicas", 2), 2, marks=pytest.mark.thorough
        ),
    ],
)
def test_lamb_learns_as_by_hand(options: tuple[Any, ...], replicas: int) -> None:
    model, history = run_example("encoder_pipeline", *SIZES, *options)
    updates = UPDATES // replicas
    hand, losses = _by_hand(Lamb(updates), replicas=replicas)
    assert int(model.optimizer.iterations) == updates
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-4)
    assert_close(model, [weight.numpy() for weight in hand.trainable_variables])


@pytest.mark.thorough
def test_lamb_learns_in_half_precision_with_automatic_loss_scaling() -> None:
    model, history = run_example(
        "encoder_pipeline", *SIZES, *HALF, "--loss-scaling", 128
    )
    assert model.layers[2].compute_dtype == "float16"
    _, losses = _by_hand(LossScaled(Lamb(), loss_scale=128.0), "mixed_float16")
    np.testing.assert_allclose(history["loss"], losses, rtol=5e-3)
    assert history["loss"][1] < history["loss"][0]
