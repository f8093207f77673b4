"""The operations whose float16 results are made as on the device.

They stand in for TensorFlow's while a program is traced: conversions, matrix products
and convolutions, with their gradients, and what optimizers store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.numerics.half_emulation import (
    Emulation,
    current_emulation,
    emulating,
)
from ipu_runtime.engine.numerics.half_partial_operations import with_half_partials
from ipu_runtime.engine.numerics.half_rounding import narrow, widen
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patch_points import (
    conversion_patch,
    product_patches,
    storing_patches,
)
from ipu_runtime.frameworks.patching import applied

_WIDER = (tf.float32, tf.float64)
_TENSORS = (tf.Tensor, tf.Variable, keras.Variable)


@contextmanager
def half_operations(emulation: Emulation | None) -> Iterator[None]:
    """Make float16 results as the emulation says inside."""
    if emulation is None:
        yield
        return
    with applied(_PATCHES), emulating(emulation):
        yield


def half_sum(total: Any, share: Any) -> Any:
    """Return a sum, in float16 rounded as on the device."""
    emulation = current_emulation()
    if emulation is None or total.dtype != tf.float16:
        return total + share
    wide = _float32(total) + _float32(share)
    return narrow(wide, emulation, "a gradient accumulation")


def _float32(values: Any) -> Any:
    # Not `tf.cast`, which may be the replaced one.
    return tf.dtypes.cast(tf.convert_to_tensor(values), tf.float32)


def _conversion(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
        emulation = current_emulation()
        if emulation is None or not isinstance(x, _TENSORS):
            return original(x, dtype, name)
        pair = tf.as_dtype(x.dtype), tf.as_dtype(dtype)
        if pair == (tf.float16, tf.float32):
            return widen(tf.convert_to_tensor(x), emulation, "a conversion")
        if pair[0] in _WIDER and pair[1] == tf.float16:
            return narrow(tf.convert_to_tensor(x), emulation, "a conversion")
        return original(x, dtype, name)

    return cast


def _product(original: Callable[..., Any]) -> Callable[..., Any]:
    def product(*args: Any, **kwargs: Any) -> Any:
        emulation = current_emulation()
        given = [*args, *kwargs.values()]
        if emulation is None or not any(map(_is_half, given)):
            return original(*args, **kwargs)
        what = original.__name__.removesuffix("_v2")
        partly = with_half_partials(what, args, kwargs, emulation)
        if partly is not None:
            return partly

        def wide(value: Any) -> Any:
            if not _is_half(value):
                return value
            return widen(tf.convert_to_tensor(value), emulation, what)

        result = original(
            *map(wide, args), **{name: wide(value) for name, value in kwargs.items()}
        )
        return narrow(result, emulation, what)

    return product


def _is_half(value: Any) -> bool:
    return isinstance(value, _TENSORS) and tf.as_dtype(value.dtype) == tf.float16


def _storing(original: Callable[..., Any]) -> Callable[..., Any]:
    sign = {"assign": None, "assign_add": 1.0, "assign_sub": -1.0}[original.__name__]

    def store(self: Any, variable: Any, value: Any) -> Any:
        emulation = current_emulation()
        stored = variable.value if isinstance(variable, keras.Variable) else variable
        if emulation is None or stored.dtype != tf.float16:
            return original(self, variable, value)
        wide = _float32(value)
        if sign is not None:
            wide = _float32(stored) + sign * wide
        return stored.assign(narrow(wide, emulation, "a weight update"))

    return store


_PATCHES = (
    conversion_patch(_conversion),
    *product_patches(_product),
    *storing_patches(_storing),
)
