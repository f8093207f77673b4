"""Histograms: `ipu.ops.statistics_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def fixed_width_bins(inputs: Any, n_bins: int) -> Any:
    """Return evenly spaced levels from the smallest to the largest value."""
    inputs = tf.convert_to_tensor(inputs)
    return tf.linspace(tf.reduce_min(inputs), tf.reduce_max(inputs), n_bins)


def histogram_normalize(hist: Any) -> Any:
    """Return the histogram divided by its sum."""
    hist = tf.convert_to_tensor(hist)
    return hist / tf.reduce_sum(hist, axis=0)


def histogram(inputs: Any, levels: Any, absolute_of_input: bool = False) -> Any:
    """Count values below the first level, between levels, and from the last one on."""
    return _counts("histogram", inputs, levels, absolute_of_input)


def histogram_update(
    hist: Any, inputs: Any, levels: Any, absolute_of_input: bool = False
) -> Any:
    """Return the histogram with the counts of further values added."""
    hist = tf.convert_to_tensor(hist)
    if hist.dtype != tf.float32:
        raise ValueError(f"hist must be of float32 type, not {hist.dtype.name}.")
    counts = _counts("histogram_update", inputs, levels, absolute_of_input)
    if hist.shape != counts.shape:
        raise ValueError(
            f"hist and levels shapes are incompatible: hist has {hist.shape}, but for "
            f"n levels it must have n+1 elements, {counts.shape[0]} here."
        )
    return hist + counts


def _counts(name: str, inputs: Any, levels: Any, absolute: bool) -> Any:
    inputs, levels = tf.convert_to_tensor(inputs), tf.convert_to_tensor(levels)
    for tensor in (inputs, levels):
        if tensor.dtype not in (tf.float16, tf.float32):
            raise ValueError(
                f"Only float16 and float32 types are supported for {name}, not "
                f"{tensor.dtype.name}."
            )
        if len(tensor.shape) != 1:
            raise ValueError(
                f"{name} expects rank-1 tensor inputs, but one has {tensor.shape}."
            )
    values = tf.cast(tf.abs(inputs) if absolute else inputs, tf.float32)
    below = values[:, None] < tf.cast(levels, tf.float32)
    cumulative = tf.concat(
        [
            [0.0],
            tf.reduce_sum(tf.cast(below, tf.float32), axis=0),
            [tf.cast(tf.size(values), tf.float32)],
        ],
        0,
    )
    counts = cumulative[1:] - cumulative[:-1]
    (count,) = levels.shape.as_list()
    return tf.ensure_shape(counts, [None if count is None else count + 1])
