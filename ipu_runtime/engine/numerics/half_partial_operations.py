"""TensorFlow's products and convolutions with float16 partials, where there are any."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.numerics.half_emulation import Emulation
from ipu_runtime.engine.numerics.half_partials import (
    half_convolution,
    half_einsum,
    tensordot_equation,
)

logger = logging.getLogger("tensorflow")

_told: set[str] = set()
_MATMULS = ("matmul", "tensordot", "einsum")


def with_half_partials(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], emulation: Emulation
) -> Any:
    """Return the result of an operation on float16 tensors; None if not asked for.

    What cannot be summed so is warned about once, and summed in float32.
    """
    settings = emulation.settings
    asked = settings.half_matmuls if name in _MATMULS else settings.half_convolutions
    if not asked:
        return None
    operation = _OPERATIONS.get(name)
    result = operation(*args, **kwargs, emulation=emulation) if operation else None
    if result is None and name not in _told:
        _told.add(name)
        logger.warning(
            "%s with these arguments is summed in float32: half partials are "
            "emulated for matmul, tensordot, einsum of two tensors, and convolutions "
            "over one or two dimensions with channels last",
            name,
        )
    return result


def _matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    *,
    emulation: Emulation,
    **others: Any,
) -> Any:
    if any(others.values()):
        return None
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    rank = max(len(a.shape), len(b.shape))
    if len(a.shape) != len(b.shape) and len(b.shape) != 2:
        return None
    groups = "abcdefgh"[: rank - 2]
    if len(b.shape) > 2 and a.shape[:-2] != b.shape[:-2]:
        return None
    left = groups + ("km" if transpose_a else "mk")
    right = groups * (len(b.shape) > 2) + ("nk" if transpose_b else "kn")
    return half_einsum(f"{left},{right}->{groups}mn", a, b, emulation, "matmul")


def _tensordot(
    a: Any, b: Any, axes: Any, name: str | None = None, *, emulation: Emulation
) -> Any:
    del name
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    equation = tensordot_equation(a, b, axes)
    return half_einsum(equation, a, b, emulation, "tensordot")


def _einsum(
    equation: str, *inputs: Any, emulation: Emulation, **others: Any
) -> Any | None:
    del others  # They only say in which order to contract.
    parts = equation.replace(" ", "").split("->")
    sides = parts[0].split(",")
    letters = "".join(sides)
    contracted = [c for c in set(letters) if c not in parts[-1]]
    if (
        len(parts) != 2
        or len(sides) != 2
        or "." in equation
        or any(len(set(side)) < len(side) for side in sides)
        or any(letters.count(c) < 2 for c in contracted)
    ):
        return None
    a, b = (tf.convert_to_tensor(item) for item in inputs)
    return half_einsum("->".join(parts), a, b, emulation, "einsum")


def _convolution(
    input: Any,  # noqa: A002  TensorFlow's own name
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
    *,
    emulation: Emulation,
) -> Any | None:
    del name
    images, filters = tf.convert_to_tensor(input), tf.convert_to_tensor(filters)
    rank = len(images.shape) - 2
    first = data_format is not None and data_format.startswith("NC")
    if rank not in (1, 2) or first or not isinstance(padding, str):
        return None
    if images.shape[-1] is None:
        return None
    if rank == 1:
        images, filters = images[:, None], filters[None]
    groups = images.shape[-1] // filters.shape[2]
    made = [
        half_convolution(
            part,
            kernel,
            _pair(strides, rank),
            _pair(dilations, rank),
            padding.upper(),
            emulation,
            "convolution",
        )
        for part, kernel in zip(
            tf.split(images, groups, -1), tf.split(filters, groups, -1), strict=True
        )
    ]
    result = tf.concat(made, -1)
    return result[:, 0] if rank == 1 else result


def _pair(steps: Any, rank: int) -> tuple[int, int]:
    """Return steps along height and width, however TensorFlow takes them."""
    given = [1] if steps is None else [steps] if isinstance(steps, int) else list(steps)
    if len(given) == rank + 2:
        given = given[1:-1]
    given = given * (rank // len(given)) if len(given) < rank else given
    return (1, given[0]) if rank == 1 else (given[0], given[1])


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "tensordot": _tensordot,
    "einsum": _einsum,
    "convolution": _convolution,
    "conv2d": _convolution,
}
