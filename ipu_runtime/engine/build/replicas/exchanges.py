"""Marks in the program of one replica, replaced by what really goes between several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import collective_of, group_of
from ipu_runtime.engine.build.replicas.instance_exchange import (
    gather_instances,
    sum_over_instances,
)
from ipu_runtime.system.instances import Instance


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
