"""Marks in the program of one replica, replaced by what really goes between several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.collectives import collective_of, group_of


def _reduce(inputs: list[Any], operation: Any, replicas: int) -> list[Any]:
    group = group_of(operation, replicas)
    results = []
    for first in range(0, replicas, group):
        total = tf.add_n(inputs[first : first + group])
        if collective_of(operation) == "mean":
            total /= tf.cast(group, total.dtype)
        results.extend([total] * group)
    return results


def _gather(inputs: list[Any], operation: Any, replicas: int) -> list[Any]:
    if operation.outputs[0].shape[0] != replicas:
        raise ValueError(
            f"all_gather was asked for {operation.outputs[0].shape[0]} replicas, "
            f"but {replicas} run."
        )
    # Every input is a stack of one replica's value, as often as there are replicas.
    return [tf.stack([value[0] for value in inputs])] * replicas


def _index(inputs: list[Any], operation: Any, replicas: int) -> list[Any]:
    return [tf.constant(replica, tf.int32) for replica in range(replicas)]


EXCHANGES: dict[str, Callable[[list[Any], Any, int], list[Any]]] = {
    "sum": _reduce,
    "mean": _reduce,
    "gather": _gather,
    "index": _index,
}
"""What a mark becomes, by its kind: the results of all replicas, from their inputs."""
