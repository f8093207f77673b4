"""Which IPUs of a replica an operation is placed on, as an attribute of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2

SHARDING = "_XlaSharding"


@contextmanager
def shards_marked(shards: Sequence[int]) -> Iterator[None]:
    """Mark the operations that are built inside."""
    if tf.executing_eagerly():
        yield
        return
    # Of this kind, the host's compiler never looks for devices that it does not have.
    sharding = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.REPLICATED, tile_assignment_devices=shards
    )
    graph = tf.compat.v1.get_default_graph()
    with graph._attr_scope({SHARDING: _attribute(sharding.SerializeToString())}):
        yield


def shards_of(operation: Any) -> list[int] | None:
    """Return the IPUs of an operation, or None if it is not placed."""
    serialized = operation.node_def.attr
    if SHARDING not in serialized:
        return None
    sharding = xla_data_pb2.OpSharding.FromString(serialized[SHARDING].s)
    return list(sharding.tile_assignment_devices)


def set_sharding(operation: Any, serialized: bytes) -> None:
    """Mark an operation with what another one has been marked with."""
    operation._set_attr(SHARDING, _attribute(serialized))


def _attribute(serialized: bytes) -> Any:
    return tf.compat.v1.AttrValue(s=serialized)
