"""Numbers of eight bits: `ipu.ops.f8_ops`.

A code is a sign, exponent bits and mantissa bits. There is no infinity, and the code
of minus zero is the only NaN. Every value is multiplied by two to the power of the
scale, which stands with the format in the metadata: bit 7 is set for F143, and the
lowest six bits are the scale as a signed number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.numerics.half_models import emulation_now
from ipu_runtime.engine.numerics.half_rounding import random_share

_NAN = 0x80
_OVERFLOW = 0x80
"""What would be the code after the largest one without a sign."""


class Format(IntEnum):
    """How the seven bits behind the sign are used."""

    F143 = 0
    """Four bits of exponent, three of mantissa; the largest value is 240."""
    F152 = 1
    """Five bits of exponent, two of mantissa; the largest value is 57344."""


def create_metadata(fmt: Format, scale: int = 0) -> int:
    """Return the byte that describes a format and a scale from -32 to 31."""
    return (128 if fmt == Format.F143 else 0) | (scale & 0x3F)


class QuarterTensor:
    """Codes and the metadata that says what they mean."""

    def __init__(self, data: Any, metadata: Any) -> None:
        self.assign([data, metadata])

    def assign(self, new_values: Sequence[Any], **kwargs: Any) -> None:
        """Take codes and metadata, in the form that `numpy` returns."""
        del kwargs
        data, metadata = new_values
        if data.dtype != "uint8":
            raise TypeError(
                "Trying to set/update QuarterTensor data with a tensor of type "
                f"{data.dtype}, but only uint8 are supported. Check that data is a "
                "value returned by `convert_to_f8`."
            )
        self.data = tf.Variable(data) if isinstance(data, np.ndarray) else data
        self.metadata = metadata

    def numpy(self) -> list[Any]:
        """Return codes and metadata."""
        return [self.data.numpy(), self.metadata]

    @property
    def shape(self) -> Any:
        """Shape of the codes."""
        return self.data.shape

    @property
    def dtype(self) -> Any:
        """Type that the codes are stored in."""
        return tf.uint8

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuarterTensor) and all(
            np.array_equal(*pair)
            for pair in zip(self.numpy(), other.numpy(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return int(self.data.shape.as_list()[0])

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __iter__(self) -> Iterator[Any]:
        return iter([self.data, self.metadata])


def convert_to_f8(values: Any, metadata: Any, name: str | None = None) -> QuarterTensor:
    """Round to codes as `floating_point_behaviour` says.

    That is to the nearest, at a tie to the even one, or at random (`esr`); what is too
    large becomes the last code, or NaN (`nanoo`).
    """
    emulation = emulation_now()
    metadata = tf.cast(metadata, tf.uint8)
    half = tf.cast(tf.cast(values, tf.float16), tf.float32)
    scaled = half / _factor(metadata)
    size = tf.reshape(tf.abs(scaled), [-1])
    if emulation.stochastic:
        steps = tf.gather(_SIZES, _row(metadata))
        below = tf.searchsorted(steps, size, side="right") - 1
        below = tf.clip_by_value(below, 0, _OVERFLOW - 1)
        low, high = tf.gather(steps, below), tf.gather(steps, below + 1)
        share = random_share(tf.shape(size), emulation.key())
        code = below + tf.cast(share < (size - low) / (high - low), tf.int32)
    else:
        halfways = tf.gather(_HALFWAYS, _row(metadata))
        left = tf.searchsorted(halfways, size, side="left")
        right = tf.searchsorted(halfways, size, side="right")
        code = tf.where(tf.equal(left % 2, 0), left, right)
    code = tf.reshape(code, tf.shape(scaled))
    too_large = tf.equal(code, _OVERFLOW)
    code = tf.where(too_large, _OVERFLOW - 1, code)
    # A small negative number must not become the code of NaN.
    code += tf.where((scaled < 0) & (code > 0), _NAN, 0)
    nan = tf.math.is_nan(scaled)
    if not emulation.settings.saturates:
        nan |= too_large
    return QuarterTensor(
        tf.cast(tf.where(nan, _NAN, code), tf.uint8, name=name), metadata
    )


def convert_from_f8(
    packed_input: Any, dtype: Any = tf.float16, name: str | None = None
) -> Any:
    """Return the values of codes, given with their metadata."""
    data, metadata = packed_input
    metadata = tf.cast(metadata, tf.uint8)
    table = tf.gather(_VALUES, _row(metadata))
    values = tf.gather(table, tf.cast(data, tf.int32)) * _factor(metadata)
    return tf.cast(tf.cast(values, tf.float16), dtype, name=name)


def canonicalise_input(
    inp: Any, expected_rank: int = 3, name: str = "MatMulCanonicalise"
) -> list[Any]:
    """Return tensor and metadata; matrices get a dimension for groups."""
    data, metadata = inp if isinstance(inp, QuarterTensor) else (inp, 0)
    data = tf.convert_to_tensor(data)
    if not data.shape.is_fully_defined():
        raise ValueError(f"Input shape must be fully defined: {data.shape}.")
    if len(data.shape) == 2:
        data = tf.expand_dims(data, 0, name=name)
    data.shape.assert_has_rank(expected_rank)
    return [data, tf.cast(metadata, tf.uint8)]


def canonicalise_output(output: Any, lhs: Any) -> Any:
    """Return the first output, without the dimension that the input did not have."""
    return tf.squeeze(output[0], 0) if len(lhs.shape) == 2 else output[0]


def f8_matmul(lhs: Any, rhs: Any, name: str = "f8_matmul") -> Any:
    """Multiply matrices, or groups of them, of codes or numbers; the result is half."""
    product = tf.matmul(*(_numbers(item, 3) for item in (lhs, rhs)), name=name)
    return canonicalise_output([tf.cast(product, tf.float16)], lhs)


def _convolution(
    operation: Callable[..., Any], over: str, no_dilations: tuple[int, ...]
) -> Callable[..., Any]:
    """Return the function that convolves codes or numbers over some dimensions."""
    rank = len(over) + 2
    own_name = f"f8_conv_{len(over)}d"

    def convolve(
        inputs: Any,
        filters: Any,
        strides: Any,
        padding: Any,
        data_format: str = f"N{over}C",
        dilations: Any = no_dilations,
        name: str = own_name,
    ) -> Any:
        formats = {f"N{over}C": False, f"NC{over}": True}
        if data_format not in formats:
            raise ValueError(
                f"`data_format` must be {' or '.join(map(repr, formats))}. Received: "
                f"data_format={data_format}"
            )
        last = [0, *range(2, rank), 1] if formats[data_format] else [*range(rank)]

        def ordered(setting: Any) -> Any:
            # The host convolves with channels last only.
            whole = not isinstance(setting, (int, str)) and len(setting) == rank
            return [setting[axis] for axis in last] if whole else setting

        result = operation(
            tf.transpose(_numbers(inputs, rank), last),
            _numbers(filters, rank),
            ordered(strides),
            ordered(padding),
            dilations=ordered(dilations),
            name=name,
        )
        back = [last.index(axis) for axis in range(rank)]
        return tf.cast(tf.transpose(result, back), tf.float16)

    convolve.__name__ = convolve.__qualname__ = own_name
    convolve.__doc__ = f"Convolve over {', '.join(over)}; the result is half."
    return convolve


f8_conv_1d = _convolution(tf.nn.conv1d, "W", (1,))
f8_conv_2d = _convolution(tf.nn.conv2d, "HW", (1,) * 4)
f8_conv_3d = _convolution(tf.nn.conv3d, "DHW", (1,) * 5)


def _numbers(given: Any, rank: int) -> Any:
    """Return a tensor of codes or numbers as float32."""
    data, metadata = canonicalise_input(given, rank)
    if isinstance(given, QuarterTensor):
        data = convert_from_f8((data, metadata))
    return tf.cast(data, tf.float32)


def _row(metadata: Any) -> Any:
    return tf.where(metadata >= 128, int(Format.F143), int(Format.F152))


def _factor(metadata: Any) -> Any:
    scale = tf.cast(metadata, tf.int32) % 64
    return tf.pow(2.0, tf.cast(tf.where(scale < 32, scale, scale - 64), tf.float32))


def _sizes(mantissa_bits: int, bias: int) -> np.ndarray:
    """Return the values of the codes without a sign and of the one that overflows."""
    exponent, mantissa = np.divmod(np.arange(_OVERFLOW + 1), 1 << mantissa_bits)
    fraction = mantissa / (1 << mantissa_bits) + (exponent > 0)
    return np.ldexp(fraction, np.maximum(exponent, 1) - bias).astype(np.float32)


_SIZES = np.stack([_sizes(3, 8), _sizes(2, 16)])
_VALUES = np.concatenate([_SIZES[:, :_OVERFLOW], -_SIZES[:, :_OVERFLOW]], axis=1)
_VALUES[:, _NAN] = np.nan
_HALFWAYS = (_SIZES[:, 1:] + _SIZES[:, :-1]) / 2
