"""The backward pass that follows from the operations of a forward pass, by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ipu_runtime.plan.model.operations import Operation, OpKind

_PRODUCTS = (OpKind.MATMUL, OpKind.PRODUCT, OpKind.CONVOLUTION)


class Gradients(NamedTuple):
    """What the gradient of one operation takes, by what it is the gradient of."""

    of_input: tuple[Operation, ...] = ()
    of_weights: tuple[Operation, ...] = ()
    """Of the second operand, where a product has no weight."""
    at_once: bool = False
    """Whether either gradient takes all of it."""


def backward_pass(
    forward: Sequence[Operation], *, input_gradient: bool, trained: bool
) -> tuple[Operation, ...]:
    """Return the backward pass of a layer, last operation first.

    Args:
        input_gradient: Whether what the layer takes needs a gradient.
        trained: Whether its own weights need one.
    """
    result: list[Operation] = []
    for op in reversed(forward):
        for_input = input_gradient or (trained and not op.first)
        for_weights = trained if op.trains else for_input
        found = gradients(op)
        if for_input or (found.at_once and for_weights):
            result += found.of_input
        if for_weights:
            result += found.of_weights
    return tuple(result)


def gradients(op: Operation) -> Gradients:
    """Return what the gradient of an operation takes."""
    match op.kind:
        case OpKind.MATMUL | OpKind.PRODUCT:
            return _of_product(op)
        case OpKind.CONVOLUTION:
            positions, channels_in, channels_out, taps, groups, turned = op.shape
            shape = (turned, channels_out, channels_in, taps, groups)
            return Gradients(
                (_again(op, OpKind.DATA_GRADIENT, "data gradient", shape),),
                (
                    _again(
                        op,
                        OpKind.WEIGHT_GRADIENT,
                        "weight gradient",
                        (positions, channels_in, channels_out, taps, groups),
                    ),
                    *_added_up(op, taps * channels_in * channels_out * groups),
                ),
            )
        case OpKind.BIAS:
            label = f"{_stem(op, 'add')}gradient"
            summed = _again(op, OpKind.REDUCTION, label, op.shape)
            summed = replace(summed, rearranged=op.rearranged)
            return Gradients((), (summed, *_added_up(op, op.shape[1])))
        case OpKind.NORM:
            gradient = _again(op, OpKind.NORM_GRADIENT, "normalise gradient", op.shape)
            return Gradients((gradient,), at_once=True)
        case OpKind.REDUCTION:
            values = op.shape[:1]
            spread = (_again(op, OpKind.COPY, "spread", values),)
            if not op.gradient_cycles:
                return Gradients(spread)
            shares = _again(op, OpKind.ELEMENTWISE, "divide", values)
            return Gradients((*spread, replace(shares, cycles=op.gradient_cycles)))
        case OpKind.ELEMENTWISE:
            if not op.gradient_cycles:
                return Gradients()
            passed = _again(op, OpKind.ELEMENTWISE, f"{op.name} gradient", op.shape)
            return Gradients((replace(passed, cycles=op.gradient_cycles),))
        case OpKind.GATHER:
            added = _again(op, OpKind.SCATTER, "add to rows", op.shape)
            return Gradients((), (added,)) if op.trains else Gradients((added,))
        case OpKind.SCATTER:
            # What was overwritten has no gradient: zeros take its place.
            taken = _again(op, OpKind.GATHER, f"{op.name} gradient", op.shape)
            return Gradients((taken, _again(op, OpKind.SCATTER, "zeros", op.shape)))
        case OpKind.COPY:
            return Gradients((replace(op, shape=op.shape[::-1]),))
        case OpKind.TRANSPOSE | OpKind.HEADS:
            return Gradients((replace(op, name=f"{op.name} gradient"),))
    kind = _GRADIENT_KIND.get(op.kind)
    if kind is None:
        return Gradients()
    return Gradients((_again(op, kind, f"{op.name} gradient", op.shape),))


_GRADIENT_KIND = {
    OpKind.ACTIVATION: OpKind.ACTIVATION_GRADIENT,
    OpKind.POOL: OpKind.POOL_GRADIENT,
    OpKind.DROPOUT: OpKind.DROPOUT_GRADIENT,
}


def _of_product(op: Operation) -> Gradients:
    rows, inner, columns, *groups = op.shape
    label = _stem(op, "matmul")
    by_rows, by_columns = inner, columns
    if op.kind is OpKind.PRODUCT and groups[0] != 1 and abs(inner) < abs(columns):
        # A product and its transpose are the same work: the longer side is rows.
        by_rows, by_columns = columns, inner
    left = _again(op, op.kind, f"{label}data gradient", (rows, columns, inner, *groups))
    right = _again(
        op, op.kind, f"{label}weight gradient", (by_rows, rows, by_columns, *groups)
    )
    if op.kind is OpKind.PRODUCT:
        left, right = (replace(each, rearranged=True) for each in (left, right))
    summed = _added_up(op, inner * columns) if op.trains else ()
    return Gradients((left,), (right, *summed))


def _stem(op: Operation, word: str) -> str:
    """Return a name without its last word, to put another behind it."""
    stem = op.name.removesuffix(word).rstrip()
    return f"{stem} " if stem else ""


def _added_up(op: Operation, values: int) -> tuple[Operation, ...]:
    """Return how the gradients of a weight that a loop uses every time become one."""
    if op.repeat == 1:
        return ()
    return (_again(op, OpKind.ELEMENTWISE, "add up", (values,)),)


def _again(op: Operation, kind: OpKind, name: str, shape: tuple[int, ...]) -> Operation:
    """Return an operation of the same values, run as often."""
    return Operation(kind, name, shape, op.value_bytes, repeat=op.repeat)


def forward_flops(forward: Sequence[Operation]) -> int:
    """Count the multiply-adds of one sample, times two."""
    return sum(
        2 * op.size_at(1) * abs(op.repeat)
        for op in forward
        if op.kind in (*_PRODUCTS, OpKind.DATA_GRADIENT)
    )
