"""Copies of sequences from tensor to tensor: `ipu.ops.slicing_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import Tensor
from ipu_runtime.ops.embedding_ops import embedding_lookup


def sequence_slice(
    dst: Tensor,
    src: Tensor,
    num_elems: Any,
    src_offsets: Any,
    dst_offsets: Any,
    zero_unused: bool,
) -> Any:
    """Copy rows of `src` into `dst`, slice after slice; a later one wins.

    As on the device, gradients flow to `src` only.
    """
    dst, src = tf.convert_to_tensor(dst), tf.convert_to_tensor(src)
    counts, reads, writes = _slices(
        num_elems=num_elems, src_offsets=src_offsets, dst_offsets=dst_offsets
    )
    if src.shape[1:] != dst.shape[1:]:
        raise ValueError(
            f"src and dst inner shapes must match: {src.shape} and {dst.shape}."
        )
    others = tf.zeros_like(dst) if zero_unused else tf.stop_gradient(dst)
    rows = tf.range(tf.shape(dst)[0])[None, :]
    covers = (rows >= writes[:, None]) & (rows < (writes + counts)[:, None])
    # The last slice that covers a row is the one that it is taken from.
    number = tf.range(1, tf.shape(counts)[0] + 1)[:, None]
    last = tf.reduce_max(number * tf.cast(covers, tf.int32), axis=0)
    taken = last > 0
    source = rows[0] + tf.gather(reads - writes, tf.maximum(last - 1, 0))
    values = embedding_lookup(src, tf.where(taken, source, 0))
    shape = tf.concat([tf.shape(taken), tf.ones_like(tf.shape(dst)[1:])], 0)
    return tf.where(tf.reshape(taken, shape), values, others)


def sequence_slice_unpack(
    src: Tensor, num_elems: Any, src_offsets: Any, total_elements: int
) -> Any:
    """Copy slices of `src` one behind the other into a new tensor."""
    src = tf.convert_to_tensor(src)
    counts, reads = _slices(num_elems=num_elems, src_offsets=src_offsets)
    shape = tf.concat([[total_elements], tf.shape(src)[1:]], 0)
    empty = tf.ensure_shape(
        tf.zeros(shape, src.dtype), [total_elements, *src.shape.as_list()[1:]]
    )
    starts = tf.cumsum(counts, exclusive=True)
    return sequence_slice(empty, src, counts, reads, starts, True)


def sequence_slice_pack(
    dst: Tensor, src: Tensor, num_elems: Any, dst_offsets: Any, zero_unused: bool
) -> Any:
    """Copy slices that lie one behind the other in `src` to places in `dst`."""
    counts, writes = _slices(num_elems=num_elems, dst_offsets=dst_offsets)
    starts = tf.cumsum(counts, exclusive=True)
    return sequence_slice(dst, src, counts, starts, writes, zero_unused)


def _slices(**given: Any) -> list[Any]:
    vectors = [tf.convert_to_tensor(item, tf.int32) for item in given.values()]
    shapes = [vector.shape.as_list() for vector in vectors]
    (first, *rest) = shapes
    if len(first) != 1 or first[0] in (0, None) or any(s != first for s in rest):
        raise ValueError(
            f"{', '.join(given)} must have matching, nonzero shapes of rank 1, but "
            f"they have {', '.join(map(str, shapes))}."
        )
    return vectors
