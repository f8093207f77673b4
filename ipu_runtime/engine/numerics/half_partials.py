"""Matrix products whose partial sums are float16, as the matrix unit makes them.

The unit multiplies blocks of 16 input channels exactly enough and adds each block's
sums to a float16 result; the gradients are such products as well.
"""

from __future__ import annotations

import string
from dataclasses import replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.numerics.half_emulation import Emulation
from ipu_runtime.engine.numerics.half_rounding import narrow, rounding_of, widen

BLOCK = 16
"""Input channels that the unit takes at a time."""


def half_matmul(a: Any, b: Any, emulation: Emulation, what: str) -> Any:
    """Multiply stacks of float16 matrices: (groups, m, k) by (groups, k, n)."""
    nearest = replace(emulation.settings, stochastic=False, stochastic_updates=False)
    rounded = rounding_of(Emulation(nearest, emulation.draws), f"partials of {what}")

    def summed(a: Any, b: Any) -> Any:
        blocks = -(-tf.shape(a)[2] // BLOCK)
        rest = blocks * BLOCK - tf.shape(a)[2]
        a = tf.pad(tf.dtypes.cast(a, tf.float32), [[0, 0], [0, 0], [0, rest]])
        b = tf.pad(tf.dtypes.cast(b, tf.float32), [[0, 0], [0, rest], [0, 0]])

        def add(block: Any, total: Any) -> Any:
            first = block * BLOCK
            left = a[:, :, first : first + BLOCK]
            part = tf.linalg.matmul(left, b[:, first : first + BLOCK])
            return block + 1, rounded(tf.dtypes.cast(total, tf.float32) + part)

        shape = tf.stack([tf.shape(a)[0], tf.shape(a)[1], tf.shape(b)[2]])
        start = tf.zeros(shape, tf.float16)
        start = tf.ensure_shape(start, [a.shape[0], a.shape[1], b.shape[2]])
        return tf.while_loop(
            lambda block, _: block < blocks, add, (tf.constant(0), start)
        )[1]

    @tf.custom_gradient
    def product(a: Any, b: Any) -> Any:
        def gradients(gradient: Any) -> tuple[Any, Any]:
            return (
                summed(gradient, tf.linalg.matrix_transpose(b)),
                summed(tf.linalg.matrix_transpose(a), gradient),
            )

        return summed(a, b), gradients

    return product(a, b)


def half_einsum(equation: str, a: Any, b: Any, emulation: Emulation, what: str) -> Any:
    """Contract two float16 tensors; every axis has a letter, none twice in one."""
    sides, result = equation.split("->")
    left, right = sides.split(",")
    groups = [c for c in left if c in right and c in result]
    inner = [c for c in left if c in right and c not in result]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    sizes = dict(zip(left, tf.unstack(tf.shape(a)), strict=True))
    sizes |= dict(zip(right, tf.unstack(tf.shape(b)), strict=True))

    def matrices(tensor: Any, letters: str, *parts: list[str]) -> Any:
        order = [letters.index(c) for part in parts for c in part]
        extents = [_product([sizes[c] for c in part]) for part in parts]
        return tf.reshape(tf.transpose(tensor, order), tf.stack(extents))

    made = half_matmul(
        matrices(a, left, groups, rows, inner),
        matrices(b, right, groups, inner, columns),
        emulation,
        what,
    )
    order = [*groups, *rows, *columns]
    made = tf.reshape(made, tf.stack([sizes[c] for c in order]))
    known = dict(zip(left + right, [*a.shape, *b.shape], strict=True))
    made = tf.ensure_shape(made, [known[c] for c in order])
    return tf.transpose(made, [order.index(c) for c in result])


def tensordot_equation(a: Any, b: Any, axes: Any) -> str:
    """Return the contraction that `tf.tensordot` does, with a letter for every axis."""
    left = list(string.ascii_letters[: len(a.shape)])
    right = list(string.ascii_letters[len(left) : len(left) + len(b.shape)])
    if isinstance(axes, int):
        axes = range(len(left) - axes, len(left)), range(axes)
    first, second = ([item] if isinstance(item, int) else item for item in axes)
    for one, other in zip(first, second, strict=True):
        right[other] = left[one]
    free = [c for c in left if c not in right] + [c for c in right if c not in left]
    return f"{''.join(left)},{''.join(right)}->{''.join(free)}"


def half_convolution(
    inputs: Any,
    filters: Any,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: str,
    emulation: Emulation,
    what: str,
) -> Any:
    """Convolve images with channels last; every tap is a block or several."""
    height, width, channels, outputs = filters.shape
    rest = -channels % BLOCK if channels > BLOCK else 0
    filters = tf.pad(filters, [[0, 0], [0, 0], [0, rest], [0, 0]])
    images = tf.pad(inputs, [[0, 0], [0, 0], [0, 0], [0, rest]])
    patches = tf.image.extract_patches(
        widen(images, emulation, what),
        [1, height, width, 1],
        [1, *strides, 1],
        [1, *dilations, 1],
        padding,
    )
    made = half_matmul(
        tf.reshape(narrow(patches, emulation, what), [1, -1, patches.shape[-1]]),
        tf.reshape(filters, [1, -1, outputs]),
        emulation,
        what,
    )
    made = tf.reshape(made, tf.concat([tf.shape(patches)[:3], [outputs]], 0))
    return tf.ensure_shape(made, [*patches.shape[:3], outputs])


def _product(extents: list[Any]) -> Any:
    return tf.reduce_prod(tf.stack(extents)) if extents else tf.constant(1)
