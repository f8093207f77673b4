"""Matrix products and convolutions of a TensorFlow graph as plain operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu_runtime.plan.model.operations import Extent, OpKind, joined

Extents = Callable[[Any], tuple[Extent, ...]]
"""Returns a tensor's shape, extents that grow with the batch negative."""
Found = tuple[OpKind, tuple[Extent, ...]]


def matrix_op(operation: Any, extents: Extents) -> Found | None:
    """Return kind and shape of an operation of the matrix unit, None for others."""
    kind = operation.type
    if kind == "MatMul":
        return OpKind.MATMUL, _product(operation, extents)[:3]
    if kind.startswith("BatchMatMul"):
        return OpKind.PRODUCT, _product(operation, extents)
    if kind == "Einsum" and len(operation.inputs) == 2:
        return OpKind.PRODUCT, _einsum(operation, extents)
    if kind in ("Conv2D", "Conv3D", "DepthwiseConv2dNative"):
        taken, kernel = operation.inputs
        made = operation.outputs[0]
        shape = _convolution(operation, taken, extents(kernel), made, extents)
        turned = _turned(operation, shape, extents(taken))
        return OpKind.CONVOLUTION, (*shape, turned[0])
    if "BackpropInput" in kind:
        _, kernel, made = operation.inputs
        taken = operation.outputs[0]
        shape = _convolution(operation, taken, extents(kernel), made, extents)
        return OpKind.DATA_GRADIENT, _turned(operation, shape, extents(taken))
    if "BackpropFilter" in kind:
        taken, _, made = operation.inputs
        kernel = extents(operation.outputs[0])
        found = _convolution(operation, taken, kernel, made, extents)
        return OpKind.WEIGHT_GRADIENT, found
    return None


def _product(operation: Any, extents: Extents) -> tuple[Extent, ...]:
    left, right = (extents(tensor) for tensor in operation.inputs)
    batched = operation.type != "MatMul"
    flips = ("adj_x", "adj_y") if batched else ("transpose_a", "transpose_b")
    turn_left, turn_right = (operation.get_attr(name) for name in flips)
    rows, inner = (left[-1], left[-2]) if turn_left else left[-2:]
    columns = right[-2] if turn_right else right[-1]
    made = extents(operation.outputs[0])
    if joined(right[:-2]) == 1:
        # One kernel for all matrices: they are the rows of a single product.
        return joined((*made[:-2], rows)), inner, columns, 1
    return rows, inner, columns, joined(made[:-2])


def _einsum(operation: Any, extents: Extents) -> tuple[Extent, ...]:
    equation = operation.get_attr("equation").decode()
    taken, made = equation.split("->")
    first, second = taken.split(",")
    size = {
        **_labels(first, extents(operation.inputs[0])),
        **_labels(second, extents(operation.inputs[1])),
    }
    both = [name for name in _labels(first) if name in _labels(second)]
    kept = _labels(made)
    return (
        joined(size[name] for name in _labels(first) if name not in both),
        joined(size[name] for name in both if name not in kept),
        joined(size[name] for name in _labels(second) if name not in both),
        joined(size[name] for name in both if name in kept),
    )


def _labels(term: str, shape: tuple[Extent, ...] = ()) -> dict[str, Extent]:
    """Name the dimensions of a term; an ellipsis stands for what is left over."""
    before, dots, after = term.partition("...")
    sizes = (
        dict(zip(before, shape, strict=False)) if shape else dict.fromkeys(before, 1)
    )
    if dots:
        middle = shape[len(before) : len(shape) - len(after)]
        sizes["."] = joined(middle) if shape else 1
    tail = shape[len(shape) - len(after) :] if shape and after else (1,) * len(after)
    sizes.update(zip(after, tail, strict=True))
    return sizes


def _convolution(
    operation: Any,
    taken: Any,
    kernel: tuple[Extent, ...],
    made: Any,
    extents: Extents,
) -> tuple[Extent, ...]:
    """Return the extents of the forward pass, whichever pass this is."""
    channels = _channel_axis(operation)
    positions = list(extents(made))
    positions.pop(channels)
    *window, channels_in, channels_out = kernel
    if operation.type.startswith("Depthwise"):
        return joined(positions), 1, channels_out, joined(window), channels_in
    groups = max(abs(extents(taken)[channels]) // channels_in, 1)
    return (
        joined(positions),
        channels_in,
        channels_out // groups,
        joined(window),
        groups,
    )


def _turned(
    operation: Any, shape: tuple[Extent, ...], taken: tuple[Extent, ...]
) -> tuple[Extent, ...]:
    _, channels_in, channels_out, taps, groups = shape
    field = list(taken)
    field.pop(_channel_axis(operation))
    stride = joined(operation.get_attr("strides"))
    positions = joined(field)
    per_stride = -(-abs(positions) // stride)
    positions = -per_stride if positions < 0 else per_stride
    return positions, channels_out, channels_in, taps, groups


def _channel_axis(operation: Any) -> int:
    return 1 if operation.get_attr("data_format").startswith(b"NC") else -1
