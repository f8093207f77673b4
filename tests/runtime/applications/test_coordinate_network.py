"""A picture as a function learns alike on one IPU, replicated and pipelined."""

from __future__ import annotations

import importlib
from pathlib import Path
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
    twin,
)

pytestmark = pytest.mark.slow

EPOCHS, BATCH = 2, 8
SIZES = ("--size", 8, "--units", 4, "--layers", 2, "--batch-size", BATCH)


def _loss(weights: Any, batch: Any) -> Any:
    x, y = batch
    for kernel, bias in (weights[:2], weights[2:4]):
        x = tf.sin(20.0 * (x @ kernel + bias))
    return tf.reduce_mean((x @ weights[4] + weights[5] - y) ** 2)


@pytest.mark.parametrize(
    ("options", "per_update", "replicas"),
    [
        pytest.param((), 1, 1, marks=pytest.mark.thorough),
        (("--ipus", 2), 2, 2),
        pytest.param(("--ipus", 2, "--pipelined"), 4, 1, marks=pytest.mark.thorough),
        (("--ipus", 4, "--pipelined"), 8, 2),
    ],
)
def test_a_picture_is_learnt_as_by_hand(
    tmp_path: Path, options: tuple[Any, ...], per_update: int, replicas: int
) -> None:
    rates = ("--learning-rate", 0.01, "--slower", 0.5, "--epochs", EPOCHS)
    arguments = (*SIZES, *rates, *options)

    model, history = run_example("coordinate_network", *arguments)

    example = importlib.import_module("coordinate_network")
    args = example.parse_arguments([str(item) for item in arguments])
    start = twin("coordinate_network", lambda module: module.build_model(args))
    updates = batches_of(
        example.make_samples(example.draw_picture(8)), BATCH, per_update
    )
    adam = Adam(lambda update: 0.01 * 0.5 ** (1 + update // len(updates)))
    weights, losses = learn(start.get_weights(), _loss, updates * EPOCHS, adam)
    assert_close(model, weights)
    shown = losses.reshape(EPOCHS, -1, replicas)[..., -1].mean(axis=1)
    np.testing.assert_allclose(history["loss"], shown, rtol=1e-4)
    folder = tmp_path / "coordinate_network"
    assert [file.stem for file in sorted(folder.glob("*.index"))] == [
        "weights-001",
        "weights-002",
    ]
    written = _written(folder / "logs" / "train")
    np.testing.assert_allclose(written, history["loss"], rtol=1e-6)


def _written(directory: Path) -> list[float]:
    (file,) = directory.glob("events*")
    return [
        float(tf.make_ndarray(value.tensor))
        for record in tf.compat.v1.train.summary_iterator(str(file))
        for value in record.summary.value
        if value.tag == "epoch_loss"
    ]
