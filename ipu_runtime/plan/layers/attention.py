"""Attention with several heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ipu_runtime.plan.layers.activations import activation
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
)
from ipu_runtime.plan.layers.setting import (
    REQUIRED_INT,
    Setting,
    optional_positive_int,
    share,
    truth,
)
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight
from ipu_runtime.plan.model.operations import Operation, OpKind


class _Sizes(NamedTuple):
    heads: int
    key: int
    value: int
    width: int
    """Of the query, which is also that of the result by default."""
    key_width: int
    value_width: int
    result: int
    queries: int
    """Length of the query sequence."""
    keys: int
    """Length of the value sequence."""
    bias: bool
    dropout: bool


def _sizes(settings: Settings, inputs: tuple[Shape, ...]) -> _Sizes:
    if any(len(shape) != 2 for shape in inputs):
        shapes = ", ".join(str(list(shape)) for shape in inputs)
        raise ShapeError(f"needs inputs of positions and features, not {shapes}")
    query, value = inputs[0], inputs[1]
    key = inputs[2] if len(inputs) > 2 else value
    if key[0] != value[0]:
        raise ShapeError(f"key has {key[0]} positions and value {value[0]}", "inputs")
    return _Sizes(
        heads=settings["num_heads"],
        key=settings["key_dim"],
        value=settings["value_dim"] or settings["key_dim"],
        width=query[1],
        key_width=key[1],
        value_width=value[1],
        result=settings["output_shape"] or query[1],
        queries=query[0],
        keys=value[0],
        bias=settings["use_bias"],
        dropout=settings["dropout"] > 0,
    )


def _shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    size = _sizes(settings, inputs)
    projections = (
        ("query", (size.width, size.heads, size.key), (size.heads, size.key)),
        ("key", (size.key_width, size.heads, size.key), (size.heads, size.key)),
        ("value", (size.value_width, size.heads, size.value), (size.heads, size.value)),
        ("attention_output", (size.heads, size.value, size.result), (size.result,)),
    )
    weights = []
    for name, kernel, bias in projections:
        weights.append(Weight(f"{name}/kernel", kernel))
        if size.bias:
            weights.append(Weight(f"{name}/bias", bias))
    return Shaped((size.queries, size.result), tuple(weights))


def _layer_sizes(layer: Layer) -> _Sizes:
    return _sizes(ATTENTION.complete(layer.spec.settings), layer.input_shapes)


def _attend(layer: Layer, training: bool) -> Sequence[Operation]:
    size = _layer_sizes(layer)
    scores = -size.heads * size.queries * size.keys
    # Keras scales the query where it drops scores, and the scores where it does not.
    scaled = -size.heads * size.queries * size.key if size.dropout else scores
    scale = Operation(OpKind.ELEMENTWISE, "scale", (scaled,), gradient_cycles=2)
    ops = [
        *_projection("query ", size.queries, size.width, size.heads * size.key, size),
        *_projection("key ", size.keys, size.key_width, size.heads * size.key, size),
        *_projection(
            "value ", size.keys, size.value_width, size.heads * size.value, size
        ),
        scale,
        Operation(OpKind.HEADS, "transposes", (-_apart(size),)),
        Operation(
            OpKind.PRODUCT,
            "scores",
            (size.queries, size.key, size.keys, -size.heads),
            rearranged=True,
        ),
        *activation("softmax", scores),
    ]
    if size.dropout and training:
        ops.append(Operation(OpKind.DROPOUT, "dropout", (scores,)))
    context = (size.queries, size.keys, size.value, -size.heads)
    ops.append(Operation(OpKind.PRODUCT, "context", context))
    inner = size.heads * size.value
    return [*ops, *_projection("output ", size.queries, inner, size.result, size)]


def _projection(
    label: str, rows: int, width: int, units: int, size: _Sizes
) -> list[Operation]:
    product = Operation(
        OpKind.PRODUCT,
        f"{label}matmul",
        (-rows, width, units, 1),
        trains=True,
        first=label != "output ",
    )
    bias = Operation(
        OpKind.BIAS, f"{label}bias add", (-rows * units, units), trains=True
    )
    return [product, *[bias] * size.bias]


def _apart(size: _Sizes) -> int:
    """Count the values of a sample that have their heads apart."""
    both = size.key + size.value
    return size.heads * (size.queries * both + size.keys * both)


def _kept(layer: Layer) -> Kept:
    size = _layer_sizes(layer)
    scores = size.heads * size.queries * size.keys
    mask = scores if size.dropout else 0
    values = scores + _apart(size)
    # The gradients of scores give those of what was projected.
    return Kept(input=True, values=values, gradients=values, mask_bytes=mask)


ATTENTION = LayerKind(
    "MultiHeadAttention",
    "Every position looks at all others; inputs are query, value and maybe key.",
    {
        "num_heads": REQUIRED_INT,
        "key_dim": REQUIRED_INT,
        "value_dim": Setting(optional_positive_int, None),
        "dropout": Setting(share, 0.0),
        "use_bias": Setting(truth, True),
        "output_shape": Setting(optional_positive_int, None),
    },
    _shape,
    _attend,
    _kept,
    fewest_inputs=2,
    most_inputs=3,
)
KINDS = (ATTENTION,)
