"""How often the loops of a TensorFlow graph run."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.op_table import VIEWS
from ipu_runtime.frameworks.inner_graphs import LOOPS, inner_graphs


def origin(tensor: Any) -> Any:
    """Return the tensor whose memory a view looks at."""
    while tensor.op.type in VIEWS and tensor.op.inputs:
        several = tensor.op.type == "IdentityN"
        tensor = tensor.op.inputs[tensor.value_index if several else 0]
    return tensor


def trips(loop: Any) -> int | None:
    """Return how often a loop runs, from constants that its condition compares.

    None if it compares none, because its length depends on values.
    """
    condition = inner_graphs(loop)[0]
    position = {tensor.name: at for at, tensor in enumerate(condition.inputs)}
    limits = []
    for compare in condition.get_operations():
        if compare.type not in ("Less", "LessEqual"):
            continue
        bounds = []
        for side in compare.inputs:
            at = position.get(origin(side).name)
            bounds.append(_known_number(side if at is None else loop.inputs[at]))
        start, end = bounds
        if start is not None and end is not None:
            limits.append(end - start + (compare.type == "LessEqual"))
    return max(min(limits), 0) if limits else None


def _known_number(tensor: Any) -> int | None:
    """Return a whole number that is constant, or the count of trips of a loop."""
    tensor = origin(tensor)
    if tensor.op.type in LOOPS:
        # The gradient of a loop runs as often as the loop has counted.
        return trips(tensor.op)
    value = tf.get_static_value(tensor)
    is_number = value is not None and not value.ndim and tensor.dtype.is_integer
    return int(value) if is_number else None
