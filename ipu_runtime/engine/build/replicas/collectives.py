"""Operations over replicas: marks in the program of one, and what they become.

A program is traced once. When it is copied for its replicas (`replication.py`), each
mark is replaced by a reduction over the copies, and over those of other processes; in
a program with one replica a mark already is the right value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.tracing_context import traced_replica
from ipu_runtime.engine.describe.placement import current_placement
from ipu_runtime.frameworks.tensorflow_graphs import set_attribute
from ipu_runtime.system.instance_exchange import (
    gather_instances,
    in_buffers,
    sum_over_instances,
)
from ipu_runtime.system.instances import Instance

COLLECTIVE = "_ipu_collective"
GROUP = "_ipu_replica_group"
SHARED = "_ipu_shared"
"""Marks an operation that stands for all replicas already."""


def all_reduce(tensor: Any, kind: str, group: int | None = None) -> Any:
    """Return the `sum` or `mean` over replicas, with gradients.

    Args:
        group: how many consecutive replicas reduce among themselves; None or 0: all.
    """

    @tf.custom_gradient
    def reduce(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return mark(upstream, kind, group)

        return mark(value, kind, group), gradient

    return reduce(tf.convert_to_tensor(tensor))


def all_reduce_together(tensors: Sequence[Any], kind: str) -> list[Any]:
    """Reduce several tensors; as one buffer if they go to other processes.

    None stays None.
    """
    placement = current_placement()
    if placement is not None and placement.instance.count > 1:
        return in_buffers(tensors, lambda buffer: all_reduce(buffer, kind))
    return [None if item is None else all_reduce(item, kind) for item in tensors]


def all_gather(tensor: Any, group: int) -> Any:
    """Return the values of all replicas of a group, stacked, with gradients."""

    @tf.custom_gradient
    def gather(value: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return mark(upstream, "sum", group)[index_in_group(group)]

        return mark(tf.stack([value] * group), "gather", group), gradient

    return gather(tf.convert_to_tensor(tensor))


def index_in_group(group: int) -> Any:
    """Return the place of this replica among those that it exchanges values with."""
    return replica_index() % group


def replica_index() -> Any:
    """Return the number of the replica that runs."""
    return mark(tf.constant(0, tf.int32), "index")


def mark(tensor: Any, kind: str, group: int | None = None) -> Any:
    """Return the tensor, marked for the copier."""
    if tf.executing_eagerly():
        return tensor
    traced = traced_replica()
    if traced is not None and traced.number is not None:
        if kind == "index":
            return tf.cast(traced.index, tf.int32)
        raise NotImplementedError(
            f"A {kind} over replicas inside of a Keras model (its layers, loss or "
            "metrics) is not emulated: its replicas run one after the other. Do it in "
            "a function of your own that `strategy.run` runs, or train on one replica."
        )
    marked = tf.identity(tensor, name=f"replica_{kind}")
    mark_operation(marked.op, kind, group)
    return marked


def mark_operation(operation: Any, kind: str, group: int | None = None) -> None:
    """Mark an operation for the copier."""
    set_attribute(operation, COLLECTIVE, kind)
    if group:
        set_attribute(operation, GROUP, group)


def mark_shared(operation: Any) -> None:
    """Mark an operation that must be copied once, whatever the replicas."""
    set_attribute(operation, SHARED, True)


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


def _reduce(inputs: list[Any], operation: Any, instance: Instance) -> list[Any]:
    group = _group(inputs, operation, instance)
    local = min(group, len(inputs))
    results = []
    for first in range(0, len(inputs), local):
        total = tf.add_n(inputs[first : first + local])
        if group > local:
            (total,) = sum_over_instances([total], instance)
        if collective_of(operation) == "mean":
            total /= tf.cast(group, total.dtype)
        results.extend([total] * local)
    return results


def _gather(inputs: list[Any], operation: Any, instance: Instance) -> list[Any]:
    group = _group(inputs, operation, instance)
    local = min(group, len(inputs))
    results = []
    for first in range(0, len(inputs), local):
        # Every input is a stack of one replica's value, as often as the group is large.
        values = tf.stack([value[0] for value in inputs[first : first + local]])
        if group > local:
            every = gather_instances(values, instance)
            values = tf.reshape(every, [group, *values.shape[1:]])
        results.extend([values] * local)
    return results


def _index(inputs: list[Any], operation: Any, instance: Instance) -> list[Any]:
    first = instance.index * len(inputs)
    return [tf.constant(first + number, tf.int32) for number in range(len(inputs))]


def _group(inputs: list[Any], operation: Any, instance: Instance) -> int:
    """Return how many replicas exchange values: some of this process's, or all."""
    local = len(inputs)
    group = group_of(operation, local * instance.count)
    if group != local * instance.count and local % group:
        raise NotImplementedError(
            f"A replica group of {group} spans some of the {instance.count} instances "
            f"with {local} replicas each; the emulator has groups within an instance "
            f"and the group of all {local * instance.count}."
        )
    return group


EXCHANGES: dict[str, Callable[[list[Any], Any, Instance], list[Any]]] = {
    "sum": _reduce,
    "mean": _reduce,
    "gather": _gather,
    "index": _index,
}
"""What a mark becomes, by its kind: the results of all replicas, from their inputs."""


LOCAL = "COLLECTIVE_OP_LOCAL"
"""Takes its own values, and none of the others."""

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "COLLECTIVE_OP_ADD": tf.reduce_sum,
    "COLLECTIVE_OP_MUL": tf.reduce_prod,
    "COLLECTIVE_OP_MIN": tf.reduce_min,
    "COLLECTIVE_OP_MAX": tf.reduce_max,
    "COLLECTIVE_OP_LOGICAL_AND": tf.reduce_all,
    "COLLECTIVE_OP_LOGICAL_OR": tf.reduce_any,
    "COLLECTIVE_OP_SQUARE_ADD": lambda stack, axis: tf.reduce_sum(stack**2, axis),
    "COLLECTIVE_OP_MEAN": tf.reduce_mean,
}


def check_operator(op: str, unavailable: tuple[str, ...] = ()) -> None:
    """Raise unless the device has such a reduction."""
    valid = [name for name in (*_REDUCTIONS, LOCAL) if name not in unavailable]
    if op not in valid:
        raise ValueError(f"`op` is {op!r}; it must be one of {', '.join(valid)}.")


def reduced(stack: Any, op: str, own: Any) -> Any:
    """Reduce over the first axis; `own` is the place of who wants the result."""
    if op == LOCAL:
        return stack[own]
    return _REDUCTIONS[op](stack, axis=0)


def parts(vector: Any, count: int) -> Any:
    """Cut a vector into equal parts, one below the other, filled up with zeros."""
    size = -(-vector.shape[0] // count)
    filled = tf.pad(vector, [[0, size * count - vector.shape[0]]])
    return tf.reshape(filled, [count, size])
