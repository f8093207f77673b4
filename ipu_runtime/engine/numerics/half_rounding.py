"""From float32 to float16 and back, with the rounding and overflow of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.numerics.half_emulation import Emulation

_LARGEST = 65504.0
_SMALLEST_EXPONENT = -14
_FRACTION_BITS = 10
_DROPPED_BITS = 13
"""Bits by which the fraction of a float32 is longer."""


def narrow(values: Any, emulation: Emulation, what: str) -> Any:
    """Return float32 values as float16; gradients come back in float32."""
    rounding = rounding_of(emulation, what)

    @tf.custom_gradient
    def narrowed(values: Any) -> Any:
        return rounding(values), lambda gradient: tf.dtypes.cast(gradient, values.dtype)

    return narrowed(tf.dtypes.cast(values, tf.float32))


def widen(values: Any, emulation: Emulation, what: str) -> Any:
    """Return float16 values as float32; their gradients are rounded to float16."""
    rounding = rounding_of(emulation, f"gradient of {what}")

    @tf.custom_gradient
    def widened(values: Any) -> Any:
        return tf.dtypes.cast(values, tf.float32), rounding

    return widened(values)


def rounding_of(emulation: Emulation, what: str) -> Callable[[Any], Any]:
    """Return the conversion, with a draw of its own if it is random."""
    settings, stochastic = emulation.settings, emulation.stochastic
    key = emulation.key() if stochastic else None

    def rounded(values: Any) -> Any:
        result = _at_random(values, key) if stochastic else values
        half = tf.dtypes.cast(result, tf.float16)
        too_large = tf.math.is_inf(half) & ~tf.math.is_inf(values)
        if settings.traps_overflow:
            trapped = tf.debugging.Assert(
                ~tf.reduce_any(too_large),
                [
                    "floating_point_behaviour.oflo is on, and the result of "
                    f"{what} is too large for float16."
                ],
            )
            with tf.control_dependencies([trapped] if trapped is not None else []):
                half = tf.identity(half)
        limit = tf.constant(
            _LARGEST if settings.saturates else float("nan"), tf.float16
        )
        return tf.where(too_large, tf.where(values > 0, limit, -limit), half)

    return rounded


def _at_random(values: Any, key: Any) -> Any:
    """Round up or down to a float16, the nearer the likelier."""
    # The eight bits of the exponent stand behind the sign and before 23 others.
    exponent = (tf.bitcast(tf.abs(values), tf.int32) // 2**23) - 127
    lowest = tf.maximum(exponent, _SMALLEST_EXPONENT) - _FRACTION_BITS
    spacing = tf.bitcast((lowest + 127) * 2**23, tf.float32)
    finite = tf.math.is_finite(values)
    scaled = tf.where(finite, values, 0.0) / spacing
    share = random_share(tf.shape(values), key)
    return tf.where(finite, tf.floor(scaled + share) * spacing, values)


def random_share(shape: Any, key: Any) -> Any:
    """Return numbers from 0 to 1, as fine as the bits that float16 drops.

    A key that is a number alone makes a sequence, from which every run draws on.
    """
    steps = 1 << _DROPPED_BITS
    if isinstance(key, int):
        bits = tf.random.uniform(shape, 0, steps, tf.int32, seed=key)
    else:
        bits = tf.random.stateless_uniform(shape, key, 0, steps, tf.int32)
    return tf.dtypes.cast(bits, tf.float32) / steps
