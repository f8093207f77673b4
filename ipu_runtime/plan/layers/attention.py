"""Attention with several heads."""

from __future__ import annotations

from typing import NamedTuple

from ipu_runtime.plan.costs.activation_costs import (
    activation_backward,
    activation_forward,
)
from ipu_runtime.plan.costs.matrix_unit import MatrixShape
from ipu_runtime.plan.costs.op_costs import ADD, DROPOUT, SELECT, Costing, OpCost
from ipu_runtime.plan.layers.dense import dense_gradient_ops, dense_ops
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

_TRANSPOSE_SUPERSTEPS = 6


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
    projected = size.heads * (
        size.queries * size.width * size.key
        + size.keys * size.key_width * size.key
        + size.keys * size.value_width * size.value
        + size.queries * size.value * size.result
    )
    mixed = size.heads * size.queries * size.keys * (size.key + size.value)
    return Shaped((size.queries, size.result), tuple(weights), projected + mixed)


def _layer_sizes(layer: Layer) -> _Sizes:
    return _sizes(ATTENTION.complete(layer.spec.settings), layer.input_shapes)


def _projections(size: _Sizes, batch: int) -> tuple[tuple[str, int, int, int], ...]:
    """List label, rows, width and units of the projections before the attention."""
    return (
        ("query ", batch * size.queries, size.width, size.heads * size.key),
        ("key ", batch * size.keys, size.key_width, size.heads * size.key),
        ("value ", batch * size.keys, size.value_width, size.heads * size.value),
    )


def _forward(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    size = _layer_sizes(layer)
    groups, scores = batch * size.heads, batch * size.heads * size.queries * size.keys
    ops = []
    for label, rows, width, units in _projections(size, batch):
        ops += dense_ops(label, rows, width, units, size.bias, cost)
    ops.append(_transposes(size, batch, cost))
    ops.append(
        cost.matmul(
            "scores",
            MatrixShape(size.queries, size.key, size.keys, groups=groups),
            extra_supersteps=1,
        )
    )
    ops.append(cost.passes("scale", scores, ADD))
    ops += activation_forward("softmax", scores, cost)
    if size.dropout and cost.training:
        ops.append(cost.passes("dropout", scores, DROPOUT, supersteps=3))
    ops.append(
        cost.matmul(
            "context", MatrixShape(size.queries, size.keys, size.value, groups=groups)
        )
    )
    rows, inner = batch * size.queries, size.heads * size.value
    return ops + dense_ops("output ", rows, inner, size.result, size.bias, cost)


def _transposes(size: _Sizes, batch: int, cost: Costing) -> OpCost:
    moved = (
        batch
        * size.heads
        * (size.queries * (size.key + size.value) + size.keys * (size.key + size.value))
    )
    return cost.passes(
        "transposes", moved, ADD, supersteps=_TRANSPOSE_SUPERSTEPS, moves=2
    )


def _backward(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    size = _layer_sizes(layer)
    groups, scores = batch * size.heads, batch * size.heads * size.queries * size.keys
    queries, keys, key, value = size.queries, size.keys, size.key, size.value

    def turned(name: str, rows: int, inner: int, columns: int) -> OpCost:
        shape = MatrixShape(rows, inner, columns, groups=groups)
        return cost.matmul(name, shape, extra_supersteps=1)

    ops = dense_gradient_ops(
        "output ",
        batch * queries,
        size.heads * value,
        size.result,
        size.bias,
        cost,
        True,
        extra_supersteps=1,
    )
    ops.append(turned("context gradient of scores", queries, value, keys))
    ops.append(turned("context gradient of value", keys, queries, value))
    if size.dropout:
        ops.append(cost.passes("dropout gradient", scores, SELECT))
    ops += activation_backward("softmax", scores, cost)
    ops.append(cost.passes("scale gradient", scores, ADD))
    ops.append(turned("scores gradient of query", queries, keys, key))
    ops.append(turned("scores gradient of key", keys, queries, key))
    ops.append(_transposes(size, batch, cost)._replace(name="transposes gradient"))
    for label, rows, width, units in _projections(size, batch):
        ops += dense_gradient_ops(
            label,
            rows,
            width,
            units,
            size.bias,
            cost,
            input_gradient,
            extra_supersteps=1,
        )
    return ops


def _kept(layer: Layer) -> Kept:
    size = _layer_sizes(layer)
    scores = size.heads * size.queries * size.keys
    projected = size.heads * (
        size.queries * (size.key + size.value) + size.keys * (size.key + size.value)
    )
    mask = scores if size.dropout else 0
    # The gradients of scores give those of what was projected.
    gradients = scores + projected
    return Kept(True, values=scores + projected, gradients=gradients, mask_bytes=mask)


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
    _forward,
    _backward,
    _kept,
    fewest_inputs=2,
    most_inputs=3,
)
KINDS = (ATTENTION,)
