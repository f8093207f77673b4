"""Simulations on replicas that draw for themselves, kept by how near they come."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

from tests.runtime.applications.by_hand import run_example

pytestmark = pytest.mark.slow

DAYS = 12
SIZES = ("--days", DAYS, "--batch-size", 50, "--batches", 3, "--keep", 4)


def _course(infection: float, recovery: float) -> np.ndarray:
    """Follow an epidemic without chance, one person at a time."""
    ill, healthy, course = 20.0, 9980.0, []
    for _ in range(DAYS):
        new = min(infection * healthy * ill / 10_000.0, healthy)
        well = min(recovery * ill, ill)
        healthy, ill = healthy - new, ill + new - well
        course.append(ill)
    return np.array(course)


def test_accepted_samples_are_as_near_as_they_say() -> None:
    rates, distances, runs = run_example(
        "epidemic_abc", *SIZES, "--noise", 0, "--samples", 20, "--tolerance", 0.3
    )
    assert len(rates) == len(distances) >= 20
    assert runs > 1
    observed = _course(0.4, 0.15)
    for (infection, recovery), distance in zip(rates, distances, strict=True):
        apart = np.linalg.norm(_course(infection, recovery) - observed)
        assert distance == pytest.approx(apart / np.linalg.norm(observed), rel=1e-3)
        assert distance < 0.3


def _drawn(seed: int, replicas: int = 2) -> np.ndarray:
    """Return all rates that one run keeps, by batch and replica."""
    example = importlib.import_module("epidemic_abc")
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    args = example.parse_arguments([str(item) for item in SIZES])
    strategy = ipu.ipu_strategy.IPUStrategy()
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    ipu.utils.reset_ipu_seed(seed)
    with strategy.scope():
        program = example.make_program(example.observe(args), args, outfeed)
        strategy.run(program, args=[tf.constant(0.3)])
    rates: np.ndarray = outfeed.dequeue()["rates"].numpy()
    return rates


def test_every_replica_and_every_batch_draws_its_own_numbers() -> None:
    rates = _drawn(seed=1)
    assert rates.shape == (3, 2, 4, 2)
    assert len(np.unique(rates[..., 0])) == 3 * 2 * 4


def test_a_seed_gives_the_same_draws_again() -> None:
    first = _drawn(seed=1)
    np.testing.assert_array_equal(_drawn(seed=1), first)
    assert not np.isin(_drawn(seed=2), first).any()


def test_a_program_of_the_older_kind_simulates_alike() -> None:
    example = importlib.import_module("epidemic_abc")
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    observed = _course(0.4, 0.15).astype(np.float32)
    simulate = tf.autograph.to_graph(example.simulate)
    with tf.Graph().as_default():
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue("accepted")

        def body(count: Any) -> Any:
            rates = tf.random.uniform([50, 2]) * example.HIGHEST
            course = simulate(rates[:, 0], rates[:, 1], DAYS, 0.0)
            distance = tf.norm(course - observed, axis=1) / np.linalg.norm(observed)
            near = tf.cast(distance < 0.3, tf.int32)
            sent = outfeed.enqueue({"rates": rates, "distance": distance})
            return count + tf.reduce_sum(near), sent

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            (near,) = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(3, body, [tf.constant(0)])
            )
        results = outfeed.dequeue()
        with tf.compat.v1.Session() as session:
            near = session.run(near)
            sent = SimpleNamespace(**session.run(results))
    assert sent.rates.shape == (3, 2, 50, 2)
    assert len(np.unique(sent.rates[..., 0])) > 290
    # The host is given the first replica's result.
    assert near == (sent.distance[:, 0] < 0.3).sum()
    expected = _course(*sent.rates[1, 1, 7])
    apart = np.linalg.norm(expected - observed) / np.linalg.norm(observed)
    assert sent.distance[1, 1, 7] == pytest.approx(apart, rel=1e-3)
