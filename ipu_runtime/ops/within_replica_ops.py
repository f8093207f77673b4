"""Exchange between the IPUs of one replica: `ipu.ops.within_replica_ops`.

All take one tensor per IPU, in the order of the IPUs, and return as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import (
    check_operator,
    parts,
    reduced,
)
from ipu_runtime.frameworks.shard_marks import shards_of

_BETWEEN_REPLICAS_ONLY = ("COLLECTIVE_OP_SQUARE_ADD", "COLLECTIVE_OP_MEAN")


def all_reduce(input_shards: Sequence[Any], op: str) -> list[Any]:
    """Give every IPU the reduction of all; shorter vectors are filled with zeros."""
    length = max(shard.shape.num_elements() for shard in _checked(input_shards))
    whole = tf.concat(reduce_scatter(input_shards, op), axis=0)[:length]
    return [tf.identity(whole) for _ in input_shards]


def reduce_scatter(input_shards: Sequence[Any], op: str) -> list[Any]:
    """Give every IPU its part of the reduction, filled up with zeros.

    Part i goes to IPU i; real devices may deal them out in another order.
    """
    shards = _checked(input_shards)
    check_operator(op, unavailable=_BETWEEN_REPLICAS_ONLY)
    rank = shards[0].shape.rank
    if rank > 1:
        raise ValueError(f"`input_shards` must have rank 0 or 1, but have rank {rank}.")
    vectors = [tf.reshape(shard, [-1]) for shard in shards]
    length = max(vector.shape[0] for vector in vectors)
    stack = tf.stack(
        [tf.pad(vector, [[0, length - vector.shape[0]]]) for vector in vectors]
    )
    count = len(vectors)
    return [parts(reduced(stack, op, own), count)[own] for own in range(count)]


def all_gather(input_shards: Sequence[Any], axis: int = 0) -> list[Any]:
    """Give every IPU the shards of all, joined along `axis`; scalars become vectors."""
    shards = _checked(input_shards)
    if shards[0].shape.rank == 0:
        whole = tf.stack(shards)
    else:
        _check_other_dimensions(shards, axis)
        whole = tf.concat(shards, axis=axis)
    return [tf.identity(whole) for _ in shards]


def _checked(input_shards: Sequence[Any]) -> list[Any]:
    if len({id(shard) for shard in input_shards}) != len(input_shards):
        raise ValueError("`input_shards` must not contain duplicate entries.")
    shards = [tf.convert_to_tensor(shard) for shard in input_shards]
    for what, found in (
        ("type", [shard.dtype.name for shard in shards]),
        ("rank", [shard.shape.rank for shard in shards]),
    ):
        if len(set(found)) != 1:
            raise ValueError(
                f"`input_shards` must all have the same {what}, but have {found}."
            )
    if not tf.executing_eagerly():
        _check_order([shards_of(shard.op) for shard in shards])
    return shards


def _check_order(placed: Sequence[list[int] | None]) -> None:
    for index, ipus in enumerate(placed):
        if ipus is not None and ipus != [index]:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"`input_shards` must be in the order of their IPUs, but number "
                f"{index} is on IPU {', '.join(map(str, ipus))}.",
            )


def _check_other_dimensions(shards: Sequence[Any], axis: int) -> None:
    shapes = [shard.shape.as_list() for shard in shards]
    if not 0 <= axis < len(shapes[0]):
        raise ValueError(
            f"`axis` is {axis}; it must be from 0 to {len(shapes[0]) - 1} for shards "
            f"of shape {shapes[0]}."
        )
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(others) != 1:
        raise ValueError(
            f"`input_shards` may only differ in dimension {axis}, but have the shapes "
            f"{shapes}."
        )
