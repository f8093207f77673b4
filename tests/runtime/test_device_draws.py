"""Random numbers in programs: every replica's own, and those of the device's seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler, loops, scopes
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.utils import reset_ipu_seed

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _seeds_of_others() -> Iterator[None]:
    # With TensorFlow's own seed, operations in two functions may draw the same.
    tf.random.set_seed(None)
    yield
    reset_ipu_seed(0)


def _straight() -> Any:
    return tf.stack([tf.random.uniform([]), tf.random.normal([])])


def _in_a_loop() -> Any:
    draws = tf.TensorArray(tf.float32, 3)
    for index in tf.range(3):
        draws = draws.write(index, tf.random.uniform([]))
    return draws.stack()


def _in_a_call() -> Any:
    return tf.function(_straight)()


def _in_a_branch() -> Any:
    first = tf.random.uniform([1])
    if first < 2.0:
        return tf.concat([first, tf.random.uniform([1])], axis=0)
    return tf.zeros([2])


WAYS = [_straight, _in_a_loop, _in_a_call, _in_a_branch]


def _run(draw: Callable[[], Any], replicas: int, compiled: bool = False) -> Any:
    """Return what every replica has drawn in two runs."""
    config = IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    strategy, outfeed = IPUStrategy(), IPUOutfeedQueue()
    with strategy.scope():

        @tf.function(jit_compile=compiled)
        def program() -> None:
            outfeed.enqueue(draw())

        for _ in range(2):
            strategy.run(program)
    return outfeed.dequeue().numpy()


@pytest.mark.parametrize("draw", WAYS)
def test_no_two_draws_are_the_same(draw: Callable[[], Any]) -> None:
    drawn = _run(draw, 2)
    assert drawn.shape[:2] == (2, 2)
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("draw", WAYS)
def test_the_seed_of_the_device_decides(draw: Callable[[], Any], replicas: int) -> None:
    drawn = []
    for seed in (1, 1, 2):
        reset_ipu_seed(seed)
        drawn.append(_run(draw, replicas))
    np.testing.assert_array_equal(drawn[1], drawn[0])
    assert not np.isin(drawn[2], drawn[0]).any()
    assert len(np.unique(drawn[0])) == drawn[0].size


@pytest.mark.parametrize("draw", WAYS)
def test_replicas_draw_the_same_if_asked(draw: Callable[[], Any]) -> None:
    reset_ipu_seed(1, experimental_identical_replicas=True)
    drawn = _run(draw, 2)
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, 1])
    assert len(np.unique(drawn)) == drawn.size / 2


def test_a_function_that_ran_before_starts_again_from_the_new_seed() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    strategy = IPUStrategy()

    @tf.function(jit_compile=True)
    def draw() -> Any:
        return tf.random.uniform([4])

    drawn = []
    for seed in (3, 3):
        reset_ipu_seed(seed)
        drawn.append([strategy.run(draw).numpy() for _ in range(2)])
    np.testing.assert_array_equal(drawn[1], drawn[0])
    assert len(np.unique(drawn[0])) == 8


def test_every_replica_tries_as_often_as_it_must() -> None:
    def tries() -> Any:
        count, value = tf.constant(0), tf.constant(1.0)
        while value > 0.2:
            value = tf.random.uniform([])
            count += 1
        return tf.stack([tf.cast(count, tf.float32), value])

    drawn = np.concatenate([_run(tries, 2) for _ in range(3)])
    assert (drawn[..., 1] <= 0.2).all()
    assert len(np.unique(drawn[..., 1])) == 12


def test_programs_of_sessions_draw_by_the_seed_too() -> None:
    def drawn(seed: int) -> Any:
        reset_ipu_seed(seed)
        config = IPUConfig()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
        with tf.Graph().as_default():
            outfeed = IPUOutfeedQueue()

            def body() -> Any:
                return outfeed.enqueue(_straight())

            with scopes.ipu_scope("/device:IPU:0"):
                program = ipu_compiler.compile(lambda: loops.repeat(3, body))
            results = outfeed.dequeue()
            with tf.compat.v1.Session() as session:
                session.run(program)
                return session.run(results)

    first = drawn(1)
    assert len(np.unique(first)) == first.size == 12
    np.testing.assert_array_equal(drawn(1), first)
    assert not np.isin(drawn(2), first).any()
