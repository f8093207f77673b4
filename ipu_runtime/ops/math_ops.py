"""Products in pieces and sums of segments: `ipu.ops.math_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import Tensor

_SPLIT_AXES = {
    # Axes of `a` and `b` after transposing; both are cut if both are named.
    "a_columns": (-2, None),
    "a_rows_b_columns": (-1, -2),
    "b_rows": (None, -1),
}


def serialized_matmul(
    a: Tensor,
    b: Tensor,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Any:
    """Multiply matrices; that the device does it in pieces changes no result."""
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    factor = int(serialization_factor)
    if factor < 1:
        raise ValueError(
            f"serialization_factor has to be at least 1, but was {factor}."
        )
    if serialization_dimension not in _SPLIT_AXES:
        raise ValueError(
            f"Invalid serialization_dimension={serialization_dimension}, expected one "
            f"of: {', '.join(map(repr, _SPLIT_AXES))}."
        )
    axes = _SPLIT_AXES[serialization_dimension]
    for label, tensor, transposed, axis in zip(
        "ab", (a, b), (transpose_a, transpose_b), axes, strict=True
    ):
        if len(tensor.shape) < 2:
            raise ValueError(f"Expected tensor {label!r} to have a minimum rank of 2.")
        if axis is not None:
            size = tensor.shape.as_list()[-3 - axis if transposed else axis]
            if size is not None and size % factor:
                raise ValueError(
                    f"Expected 'serialization_factor' ({factor}) to divide the extent "
                    f"({size}) of {label!r} that {serialization_dimension!r} cuts."
                )
    return tf.matmul(a, b, transpose_a, transpose_b, name=name)


def segment_sum(
    data: Tensor, segment_ids: Any, num_segments: int, name: str | None = None
) -> Any:
    """Sum rows of equal segment ids, which must ascend; empty segments are zero."""
    data = tf.convert_to_tensor(data)
    segment_ids = tf.convert_to_tensor(segment_ids, tf.int32)
    for label, tensor in (("data", data), ("segment_ids", segment_ids)):
        if not tensor.shape.is_fully_defined():
            raise ValueError(f"Shape of {label} must be fully defined: {tensor.shape}.")
    rows = data.shape.with_rank_at_least(1).as_list()[0]
    if segment_ids.shape.with_rank(1).as_list()[0] != rows:
        raise ValueError(
            f"segment_ids (shape {segment_ids.shape}) must have the same length as "
            f"axis 0 of data (shape {data.shape})."
        )
    if int(num_segments) <= 0:
        raise ValueError(f"num_segments must be greater than 0; got {num_segments}.")
    return tf.math.unsorted_segment_sum(data, segment_ids, int(num_segments), name=name)
