"""A U-Net whose cropped skip connection passes over a stage learns as plain Keras."""

from __future__ import annotations

import importlib
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.system import custom_op_libraries
from tests.runtime.applications.by_hand import (
    Adam,
    Arrays,
    assert_close,
    batches_of,
    learn_model,
    run_example,
    twin,
)

EXAMPLES = Path(__file__).parents[3] / "examples"

pytestmark = pytest.mark.slow

SIZES = ("--size", 20, "--filters", 2, "--samples", 16, "--batch-size", 1)


ACCUMULATE, UPDATES, EPOCHS = 8, 2, 2


@cache
def _by_hand() -> tuple[Arrays, np.ndarray, tuple[float, ...]]:
    """Train without stages; returns weights, the losses of epochs, and the scores."""
    example = importlib.import_module("unet_pipeline")
    args = example.parse_arguments([str(item) for item in SIZES])
    hand = twin("unet_pipeline", lambda module: module.build_model(args))
    images, masks = example.draw_cells(16, 20)
    border = (20 - hand.output_shape[1]) // 2
    masks = masks[:, border:-border, border:-border]

    def loss(model: Any, batch: Any) -> Any:
        return tf.reduce_mean(example.total_loss(batch[1], model(batch[0])))

    rows = batches_of((images, masks), 1, ACCUMULATE)
    adam = Adam(lambda update: 2e-3 * 0.9 ** (update / UPDATES))
    losses = learn_model(hand, loss, rows * EPOCHS, adam, share=1 / ACCUMULATE)
    scores = [
        (loss(hand, batch), np.mean(example.dice_loss(batch[1], hand(batch[0]))))
        for batches in rows
        for batch in batches
    ]
    weights = [weight.numpy() for weight in hand.trainable_variables]
    return weights, losses.reshape(EPOCHS, -1).mean(1), tuple(np.mean(scores, axis=0))


@pytest.mark.parametrize(
    "library",
    [pytest.param("", marks=pytest.mark.thorough), "/opt/ops/libcrop.so"],
)
def test_a_cropped_skip_connection_is_learnt_as_by_hand(
    monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setattr(custom_op_libraries, "_functions", {})
    counts = ("--accumulate", ACCUMULATE, "--updates", UPDATES, "--epochs", EPOCHS)
    if library:
        # As `--custom-ops` does; a module that is imported already registers no more.
        runpy.run_path(str(EXAMPLES / "unet_crop.py"))

    model, history, scores = run_example(
        "unet_pipeline", *SIZES, *counts, "--crop-library", library
    )

    compiled = [layer for layer in model.layers if "compiled" in layer.name]
    assert len(compiled) == bool(library)
    weights, losses, final = _by_hand()
    assert_close(model, weights)
    np.testing.assert_allclose(history["loss"], losses, rtol=1e-4)
    assert scores == pytest.approx(final, rel=1e-3)


def test_augmented_pictures_keep_their_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    example = importlib.import_module("unet_pipeline")
    picture = tf.random.uniform((6, 6, 1))
    args = SimpleNamespace(samples=8, size=6, batch_size=8, augment=True)
    pairs = ([picture] * 8, [picture] * 8)
    monkeypatch.setattr(example, "draw_cells", lambda count, size: pairs)
    data = example.make_dataset(args, SimpleNamespace(output_shape=(None, 4)))
    pictures, masks = next(iter(data))
    np.testing.assert_array_equal(pictures[:, 1:-1, 1:-1], masks)
    turned = {picture.numpy().tobytes() for picture in pictures}
    assert len(turned) > 1
