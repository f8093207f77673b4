"""Random operations: `ipu.ops.rand_ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import Tensor


def dropout(
    x: Tensor,
    rate: float = 0.5,
    noise_shape: Sequence[int] | None = None,
    seed: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """Set values to zero with probability `rate`, and scale the others up."""
    del kwargs
    x = tf.convert_to_tensor(x)
    if not 0 <= rate < 1:
        raise ValueError(f"rate is {rate}; it must be at least 0 and below 1.")
    if noise_shape is not None:
        _check_noise_shape(noise_shape, x.shape)
    shape = tf.shape(x) if noise_shape is None else noise_shape
    if seed is None:
        draws = tf.random.uniform(shape, dtype=tf.float32)
    else:
        pair = tf.convert_to_tensor(seed)
        if pair.shape != (2,):
            raise ValueError(f"seed has shape {pair.shape}; it must be [2].")
        draws = tf.random.stateless_uniform(shape, pair, dtype=tf.float32)
    mask = tf.cast(draws >= rate, x.dtype)
    return tf.multiply(x * mask, 1 / (1 - rate), name=name)


def _check_noise_shape(noise_shape: Sequence[int], shape: Any) -> None:
    if len(noise_shape) != len(shape):
        raise ValueError(
            f"noise_shape {list(noise_shape)} must have as many dimensions as x, "
            f"which has shape {shape}."
        )
    for noise, extent in zip(noise_shape, shape, strict=True):
        if noise not in (1, extent):
            raise ValueError(
                f"noise_shape {list(noise_shape)} must be 1 or the extent of x in "
                f"every dimension; x has shape {shape}."
            )
