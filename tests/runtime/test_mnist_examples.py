"""The MNIST examples learn what training by hand learns, on whole batches."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
BATCH = 8
EPOCHS = 3
RATE = 0.01
"""Of Keras' own SGD, which the examples take."""


@pytest.fixture(scope="module")
def mnist() -> Any:
    return tf.keras.datasets.mnist.load_data()


@pytest.fixture(autouse=True)
def _examples(mnist: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    # Unpacking 70,000 images for each test would take as long as all training.
    monkeypatch.setattr(tf.keras.datasets.mnist, "load_data", lambda: mnist)
    # Random dropout would hide that the arithmetic is the same.
    monkeypatch.setattr(importlib.import_module("mnist_model"), "DROPOUT", 0.0)


def _run(module: str, *arguments: object) -> Any:
    """Run an example in this process; returns what its `main` returns."""
    keras.utils.set_random_seed(7)
    return importlib.import_module(module).main([str(item) for item in arguments])


def _load(samples: int) -> Any:
    return importlib.import_module("mnist_data").load(samples)


def _scores(model: Any, x: Any, y: Any) -> tuple[Any, float]:
    """Return the mean cross-entropy, and the share of right answers."""
    probabilities = model(x, training=True)
    loss = -tf.reduce_mean(tf.math.log(tf.reduce_sum(y * probabilities, axis=-1)))
    right = np.argmax(probabilities, axis=-1) == np.argmax(y, axis=-1)
    return loss, float(np.mean(right))


def _by_hand(
    x: Any, y: Any, updates: Sequence[Sequence[Any]], rate: float = RATE
) -> tuple[Any, Any]:
    """Train by sums of gradients; `updates` has the rows of each of their batches.

    Returns the model and the loss of every batch, one row per update.
    """
    keras.utils.set_random_seed(7)
    model = importlib.import_module("mnist_model").build_model()
    losses = []
    for batches in updates:
        with tf.GradientTape() as tape:
            losses.append([_scores(model, x[rows], y[rows])[0] for rows in batches])
            total = tf.add_n(losses[-1])
        gradients = tape.gradient(total, model.trainable_variables)
        for variable, gradient in zip(
            model.trainable_variables, gradients, strict=True
        ):
            variable.assign_sub(rate * gradient)
    return model, np.array(losses)


@pytest.mark.parametrize(
    ("step", "batches", "options"),
    [
        ("ipu", 1, ()),
        ("faster", 1, ()),
        ("replicated", 2, ()),
        ("pipelined", 8, ("--schedule", "Grouped")),
        ("pipelined", 8, ("--schedule", "Interleaved")),
        ("pipelined", 8, ("--schedule", "Sequential")),
    ],
)
def test_steps_on_ipus_add_up_the_gradients_of_whole_batches(
    step: str, batches: int, options: tuple[str, ...]
) -> None:
    samples = BATCH * batches
    sizes = ("--samples", samples + 3, "--batch-size", BATCH, "--epochs", EPOCHS)

    losses, *scores = _run("mnist_steps", step, *sizes, *options)[step]

    # One update per epoch: however samples are shuffled, their sum is the same.
    train, test = _load(samples)
    rows = np.arange(samples).reshape(batches, BATCH)
    model, expected = _by_hand(*train, [rows] * EPOCHS)
    assert losses == pytest.approx(expected.mean(axis=1), rel=1e-5)
    assert scores == pytest.approx([float(n) for n in _scores(model, *test)], rel=1e-5)


@pytest.mark.parametrize(
    ("switches", "batches", "replicas"), [((), 1, 1), (("--use-ipu",), 2, 2)]
)
def test_a_switch_moves_training_to_two_replicas(
    switches: tuple[str, ...], batches: int, replicas: int
) -> None:
    samples = BATCH * 4
    sizes = ("--samples", samples, "--batch-size", BATCH, "--epochs", EPOCHS)

    losses, *scores = _run("mnist_train", *sizes, *switches)

    (x, y), test = _load(samples)
    rows = np.arange(samples).reshape(-1, batches, BATCH)
    model, expected = _by_hand(x, y, [*rows] * EPOCHS)
    # What is shown is the last replica's part, which is every second batch.
    per_epoch = expected[:, -1].reshape(EPOCHS, -1).mean(axis=1)
    shown = np.arange(samples).reshape(-1, replicas, BATCH)[:, -1].reshape(-1)
    loss, accuracy = _scores(model, test[0][shown], test[1][shown])
    assert losses == pytest.approx(per_epoch, rel=1e-5)
    assert scores == pytest.approx([float(loss), accuracy], rel=1e-5)


def test_the_pipelining_switch_trains_in_stages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ("--samples", 70, "--batch-size", 4, "--epochs", EPOCHS)
    pipelined = ("--use-ipu", "--pipelining", "--gradient-accumulation-count", 4)

    _run("mnist_train", *sizes, *pipelined)

    shown = capsys.readouterr().out
    # 17 whole batches are four updates of four; the rest begins the next epoch.
    assert shown.count("16/16") == EPOCHS
    assert "Test accuracy: 0." in shown


def test_pipelining_is_refused_without_ipus(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as end:
        _run("mnist_train", "--pipelining")
    assert end.value.code == 2
    assert "--pipelining needs --use-ipu" in capsys.readouterr().err


def test_the_step_on_the_cpu_takes_a_last_smaller_batch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ("--samples", 20, "--batch-size", BATCH, "--epochs", EPOCHS)
    losses, *_ = _run("mnist_steps", "cpu", *sizes)["cpu"]
    assert losses[-1] < losses[0]
    assert capsys.readouterr().out.count("3/3 - ") == EPOCHS


def test_unknown_steps_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run("mnist_steps", "cpu", "gpu")
    assert "not gpu" in capsys.readouterr().err


@pytest.mark.parametrize(("samples", "left_out"), [(60_000, 32), (10_000, 16)])
def test_trimming_says_how_many_samples_it_leaves_out(
    samples: int, left_out: int, capsys: pytest.CaptureFixture[str]
) -> None:
    data = importlib.import_module("mnist_data")
    kept, _ = data.trim((np.arange(samples), np.arange(samples)), 64)
    assert kept.tolist() == list(range(samples - left_out))
    assert f"{left_out} of {samples} samples are left out" in capsys.readouterr().out


def test_repeated_data_fill_the_last_batch_from_the_next_pass() -> None:
    sizes = ("--samples", 12, "--batch-size", BATCH, "--epochs", EPOCHS)

    history = _run("mnist_whole_batches", "repeat", *sizes)

    rows = np.arange(2 * EPOCHS * BATCH).reshape(-1, 1, BATCH) % 12
    _, expected = _by_hand(*_load(12)[0], list(rows))
    assert history["loss"] == pytest.approx(
        expected.reshape(EPOCHS, 2).mean(axis=1), rel=1e-5
    )


def test_padding_counts_for_nothing_but_the_size_of_its_batch() -> None:
    sizes = ("--samples", 6, "--batch-size", BATCH, "--epochs", EPOCHS)

    history = _run("mnist_whole_batches", "pad", *sizes)

    share = 6 / BATCH
    train, _ = _load(6)
    model, _ = _by_hand(*train, [[np.arange(6)]] * (EPOCHS - 1), RATE * share)
    loss, accuracy = _scores(model, *train)
    assert history["accuracy"][-1] == pytest.approx(accuracy)
    assert history["loss"][-1] == pytest.approx(float(loss) * share, rel=1e-5)


def test_the_sequential_model_learns_from_endless_data() -> None:
    options = ("--steps-per-epoch", 400, "--samples", 4000, "--epochs", 3)
    losses = _run("mnist_sequential", *options)
    assert len(losses) == 3
    # Chance is 2.3; the last epoch sees every sample the third time.
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 0.6


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_examples_are_written_for_the_python_of_the_sdk(script: Path) -> None:
    ast.parse(script.read_text(encoding="utf-8"), feature_version=(3, 8))
