"""Operations over replicas, as marks in the program of one replica.

A program is traced once. When it is copied for its replicas (`replication.py`), each
mark is replaced by a reduction over the copies; in a program with one replica a mark
already is the right value.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

COLLECTIVE = "_ipu_collective"
GROUP = "_ipu_replica_group"
SHARED = "_ipu_shared"
"""Marks an operation that stands for all replicas already."""


def all_reduce(tensor: Any, kind: str, group: int | None = None) -> Any:
    """Return the `sum` or `mean` over replicas, with gradients."""

    @tf.custom_gradient
    def reduce(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return mark(upstream, kind, group)

        return mark(value, kind, group), gradient

    return reduce(tf.convert_to_tensor(tensor))


def all_gather(tensor: Any, replicas: int) -> Any:
    """Return the values of all replicas, stacked."""
    tensor = tf.convert_to_tensor(tensor)
    return mark(tf.stack([tensor] * replicas), "gather")


def replica_index() -> Any:
    """Return the number of the replica that runs."""
    return mark(tf.constant(0, tf.int32), "index")


def mark(tensor: Any, kind: str, group: int | None = None) -> Any:
    """Return the tensor, marked for the copier."""
    if tf.executing_eagerly():
        return tensor
    marked = tf.identity(tensor, name=f"replica_{kind}")
    mark_operation(marked.op, kind, group)
    return marked


def mark_operation(operation: Any, kind: str, group: int | None = None) -> None:
    """Mark an operation for the copier."""
    operation._set_attr(COLLECTIVE, attr_value_pb2.AttrValue(s=kind.encode()))
    if group is not None:
        operation._set_attr(GROUP, attr_value_pb2.AttrValue(i=group))


def mark_shared(operation: Any) -> None:
    """Mark an operation that must be copied once, whatever the replicas."""
    operation._set_attr(SHARED, attr_value_pb2.AttrValue(b=True))


def collective_of(operation: Any) -> str:
    """Return the kind of a marked operation, or nothing."""
    attributes = operation.node_def.attr
    return attributes[COLLECTIVE].s.decode() if COLLECTIVE in attributes else ""


def group_of(operation: Any, replicas: int) -> int:
    """Return how many replicas a marked operation reduces over."""
    attributes = operation.node_def.attr
    group = attributes[GROUP].i if GROUP in attributes else replicas
    if group < 1 or replicas % group:
        raise ValueError(
            f"A replica group of {group} does not divide the {replicas} replicas; "
            f"valid sizes divide {replicas}."
        )
    return group
