"""Two networks with an optimizer each learn alike in all kinds of device loops."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.runtime.applications.by_hand import Adam, assert_close, run_example, twin

pytestmark = pytest.mark.slow

BATCH, STEPS, RUNS = 4, 3, 2
SIZES = ("--units", 5, "--batch-size", BATCH, "--steps", STEPS, "--runs", RUNS)
LATENT = 8


def _batch(number: int) -> np.ndarray:
    points = importlib.import_module("adversarial").draw_ring(8 * BATCH)
    rows = np.arange(number * BATCH, (number + 1) * BATCH) % len(points)
    return points[rows]


def _by_hand(game: Any, replicas: int) -> np.ndarray:
    """Train a game; returns losses by step, replica and side."""
    sides = [network.trainable_variables for network in game.networks]
    rules = [Adam(lambda _: 1e-3, beta_1=0.5) for _ in sides]

    @tf.function
    def slopes(step: Any, batches: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            both = [
                game.losses(
                    batches[replica],
                    tf.random.stateless_normal([BATCH, LATENT], seed=[step, replica]),
                )
                for replica in range(replicas)
            ]
            totals = [tf.add_n(side) for side in zip(*both, strict=True)]
        return both, [tape.gradient(totals[n], sides[n]) for n in (0, 1)]

    losses = []
    for step in range(STEPS * RUNS):
        batches = [_batch(step * replicas + replica) for replica in range(replicas)]
        both, gradients = slopes(tf.constant(step), tf.constant(np.stack(batches)))
        for rule, weights, side in zip(rules, sides, gradients, strict=True):
            before = [weight.numpy() for weight in weights]
            after = rule(before, [gradient.numpy() for gradient in side])
            for weight, value in zip(weights, after, strict=True):
                weight.assign(value)
        losses.append(both)
    return np.array(losses)


def _hand_game() -> Any:
    example = importlib.import_module("adversarial")
    args = example.parse_arguments([str(item) for item in SIZES])
    return twin("adversarial", lambda module: module.Game(args))


def _assert_alike(game: Any, hand: Any) -> None:
    for one, other in zip(game.networks, hand.networks, strict=True):
        assert_close(one, [weight.numpy() for weight in other.trainable_variables])


@pytest.mark.thorough
@pytest.mark.parametrize("replicas", [1, 2])
def test_both_networks_learn_as_by_hand(replicas: int) -> None:
    game, history = run_example("adversarial", *SIZES, "--replicas", replicas)
    hand = _hand_game()
    losses = _by_hand(hand, replicas)
    shape = (STEPS * RUNS, replicas)
    for side, name in enumerate(("made", "caught")):
        shown = np.reshape(history[name], shape)
        np.testing.assert_allclose(shown, losses[..., side], rtol=1e-4)
    _assert_alike(game, hand)


def test_both_networks_learn_alike_in_a_loop_with_an_infeed() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    game = _hand_game()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        batches = np.stack([_batch(number) for number in range(STEPS * RUNS * 2)])
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            tf.data.Dataset.from_tensor_slices(batches)
        )
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue(
            outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST
        )
        _ = infeed.initializer

        def body(total: Any, real: Any) -> Any:
            made, caught = game.step(real)
            return total + made, outfeed.enqueue((made, caught))

        @tf.function(experimental_compile=True)
        def train() -> Any:
            return ipu.loops.repeat(STEPS, body, [0.0], infeed)

        totals = [float(strategy.run(train)) for _ in range(RUNS)]
    hand = _hand_game()
    losses = _by_hand(hand, 2)
    sums = losses[:, 0, 0].reshape(RUNS, STEPS).sum(axis=1)
    np.testing.assert_allclose(totals, sums, rtol=1e-4)
    np.testing.assert_allclose(np.transpose(outfeed.dequeue()), losses[-1], rtol=1e-4)
    _assert_alike(game, hand)
