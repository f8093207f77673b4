"""Exchanges between replicas, and between the IPUs of one replica, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import scopes
from ipu_runtime.ops import (
    all_to_all_op,
    cross_replica_ops,
    reduce_scatter_op,
    within_replica_ops,
)
from tests.runtime.ops.replicated import on_replicas

pytestmark = pytest.mark.slow

ROWS = np.arange(1, 21, dtype=np.float32).reshape(4, 5) ** 1.5


@pytest.mark.parametrize(
    ("op", "reduce"),
    [
        ("COLLECTIVE_OP_ADD", lambda rows, own: rows.sum(axis=0)),
        ("COLLECTIVE_OP_MUL", lambda rows, own: rows.prod(axis=0)),
        ("COLLECTIVE_OP_MIN", lambda rows, own: rows.min(axis=0)),
        ("COLLECTIVE_OP_MAX", lambda rows, own: rows.max(axis=0)),
        ("COLLECTIVE_OP_MEAN", lambda rows, own: rows.mean(axis=0)),
        ("COLLECTIVE_OP_SQUARE_ADD", lambda rows, own: (rows**2).sum(axis=0)),
        ("COLLECTIVE_OP_LOCAL", lambda rows, own: rows[own]),
    ],
)
def test_reduce_scatter_gives_each_replica_its_part(op: str, reduce: Any) -> None:
    parts = on_replicas(
        lambda row: reduce_scatter_op.reduce_scatter(row, 2, op), ROWS, replicas=2
    )
    whole = [np.append(reduce(ROWS[:2], own), 0).reshape(2, 3) for own in range(2)]
    expected = [whole[own][own] for own in range(2)]
    np.testing.assert_allclose(parts[0], expected, rtol=1e-6)


def test_reduce_scatter_takes_lists_and_groups_of_replicas() -> None:
    def body(row: Any) -> Any:
        pair = reduce_scatter_op.reduce_scatter([row, row[:2]], 2)
        logical = reduce_scatter_op.reduce_scatter(
            row > 20, 4, "COLLECTIVE_OP_LOGICAL_OR"
        )
        return [*pair, logical]

    long, short, logical = on_replicas(body, ROWS, replicas=4)
    first, second = ROWS[:2].sum(axis=0), ROWS[2:].sum(axis=0)
    assert long.shape == (1, 4, 3)
    np.testing.assert_allclose(long[0, 1], [*first[3:], 0])
    np.testing.assert_allclose(long[0, 2], second[:3])
    np.testing.assert_allclose(short[0, :, 0], [*first[:2], *second[:2]])
    padded = np.append((ROWS > 20).any(axis=0), [False] * 3)
    np.testing.assert_array_equal(logical[0], padded.reshape(4, 2))


def test_reduce_scatter_refuses_what_is_no_vector_or_no_reduction() -> None:
    with pytest.raises(ValueError, match="must be rank 1 but is rank 2"):
        reduce_scatter_op.reduce_scatter(tf.ones((2, 2)), 2)
    with pytest.raises(ValueError, match=r"COLLECTIVE_OP_SUM.*COLLECTIVE_OP_ADD"):
        reduce_scatter_op.reduce_scatter(tf.ones(2), 2, "COLLECTIVE_OP_SUM")


def test_all_to_all_sends_blocks_and_joins_what_arrives() -> None:
    rows = np.arange(48, dtype=np.float32).reshape(2, 4, 6)
    joined = on_replicas(
        lambda row: all_to_all_op.all_to_all(row, 1, 0, 2), rows, replicas=2
    )
    blocks = [np.split(row, 2, axis=1) for row in rows]
    expected = [
        np.concatenate([blocks[sender][own] for sender in range(2)], axis=0)
        for own in range(2)
    ]
    np.testing.assert_array_equal(joined[0], expected)


def test_all_to_all_refuses_dimensions_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="multiple of `replication_factor`"):
        all_to_all_op.all_to_all(tf.ones((3, 2)), 0, 1, 2)
    with pytest.raises(ValueError, match="`concat_dimension` is 2"):
        all_to_all_op.all_to_all(tf.ones((2, 2)), 0, 2, 2)


def _gradient_of(exchange: Any) -> Any:
    """Return the gradient of the weighted results of a replica's own row."""

    def body(row: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(row)
            results = exchange(row)
            weights = tf.reshape(
                tf.range(1.0, tf.cast(tf.size(results), tf.float32) + 1),
                tf.shape(results),
            )
            loss = tf.reduce_sum(results * weights)
        return tape.gradient(loss, row)

    return body


def test_gradients_go_back_to_the_replicas_that_the_values_came_from() -> None:
    rows = ROWS[:2, :4]
    # Every replica weights its results by 1, 2, ...: a value that reaches places i
    # on both replicas gets the weight of that place twice.
    gathered = on_replicas(
        _gradient_of(lambda row: all_to_all_op.all_gather(row, 2)), rows, 2
    )
    np.testing.assert_allclose(gathered[0], 2 * np.arange(1, 9).reshape(2, 4))
    scattered = on_replicas(
        _gradient_of(lambda row: reduce_scatter_op.reduce_scatter(row, 2)), rows, 2
    )
    np.testing.assert_allclose(scattered[0], [[1, 2, 1, 2]] * 2)
    exchanged = on_replicas(
        _gradient_of(lambda row: all_to_all_op.all_to_all(row, 0, 0, 2)), rows, 2
    )
    np.testing.assert_allclose(exchanged[0], [[1, 2, 1, 2], [3, 4, 3, 4]])
    meant = on_replicas(
        _gradient_of(lambda row: cross_replica_ops.cross_replica_mean(row, 0)), rows, 2
    )
    np.testing.assert_allclose(meant[0], [[1, 2, 3, 4]] * 2)


@pytest.mark.parametrize("taken", range(3))
def test_replicas_go_through_cases_together(taken: int) -> None:
    def body(row: Any) -> Any:
        number = taken + tf.cast(0 * row[0], tf.int32)
        cases = [
            lambda: cross_replica_ops.cross_replica_sum(row),
            lambda: 2 * row,
            lambda: cross_replica_ops.cross_replica_mean(row),
        ]
        return tf.switch_case(number, cases)

    results = on_replicas(body, ROWS, replicas=2)[0]
    both = ROWS[:2].sum(axis=0)
    expected = ([both, both], 2 * ROWS[:2], [both / 2, both / 2])[taken]
    np.testing.assert_allclose(results, expected, rtol=1e-6)


def test_reductions_within_a_replica_fill_up_with_zeros() -> None:
    shards = [tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0])]
    longer = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 0.0])]
    total = within_replica_ops.all_reduce(shards, "COLLECTIVE_OP_ADD")
    assert [item.numpy().tolist() for item in total] == [[5, 7, 3]] * 2
    least = within_replica_ops.reduce_scatter(shards, "COLLECTIVE_OP_MIN")
    expected = [*np.minimum(*longer), 0]
    assert np.concatenate(least).tolist() == expected
    scalars = within_replica_ops.all_reduce(
        [tf.constant(2), tf.constant(3), tf.constant(4)], "COLLECTIVE_OP_MUL"
    )
    assert [item.numpy().tolist() for item in scalars] == [[24]] * 3


def test_all_gather_within_a_replica_joins_along_an_axis() -> None:
    first, second = tf.ones((1, 2, 3)), tf.zeros((1, 3, 3))
    joined = within_replica_ops.all_gather([first, second], axis=1)
    expected = np.concatenate([first, second], axis=1)
    for item in joined:
        np.testing.assert_array_equal(item, expected)
    scalars = within_replica_ops.all_gather([tf.constant(1), tf.constant(2)])
    assert [item.numpy().tolist() for item in scalars] == [[1, 2]] * 2


def test_gradients_within_a_replica_are_those_of_the_arithmetic() -> None:
    shards = [tf.constant([1.0, 1.0]), tf.constant([2.0, 2.0])]
    with tf.GradientTape() as tape:
        tape.watch(shards)
        gathered = within_replica_ops.all_gather(shards)
        loss = sum(tf.reduce_mean(item**2) for item in gathered)
    gradients = tape.gradient(loss, shards)
    # Two means over four squares: every value has 2 * 2 x / 4.
    np.testing.assert_allclose(gradients, [[1, 1], [2, 2]])


def test_shards_are_checked() -> None:
    one, two = tf.constant([1.0]), tf.constant([2.0])
    with pytest.raises(ValueError, match="duplicate"):
        within_replica_ops.all_gather([one, one])
    with pytest.raises(ValueError, match="same type"):
        within_replica_ops.all_gather([one, tf.constant([1])])
    with pytest.raises(ValueError, match="same rank"):
        within_replica_ops.all_gather([one, tf.constant(1.0)])
    with pytest.raises(ValueError, match="only differ in dimension 0"):
        within_replica_ops.all_gather([tf.ones((1, 2)), tf.ones((1, 3))])
    with pytest.raises(ValueError, match="rank 0 or 1"):
        within_replica_ops.reduce_scatter(
            [tf.ones((1, 2)), tf.zeros((1, 2))], "COLLECTIVE_OP_ADD"
        )
    with pytest.raises(ValueError, match="COLLECTIVE_OP_MEAN"):
        within_replica_ops.all_reduce([one, two], "COLLECTIVE_OP_MEAN")
    with tf.Graph().as_default():
        with scopes.ipu_shard(0):
            first = tf.constant([1.0])
        with scopes.ipu_shard(1):
            second = tf.constant([2.0])
        assert len(within_replica_ops.all_gather([first, second])) == 2
        with pytest.raises(tf.errors.FailedPreconditionError, match="order"):
            within_replica_ops.all_gather([second, first])
