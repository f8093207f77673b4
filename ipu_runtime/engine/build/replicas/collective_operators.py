"""How the values of several replicas or IPUs become one, by the names of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

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
