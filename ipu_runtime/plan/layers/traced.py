"""Layers without a cost of their own: what they do is known operation by operation."""

from __future__ import annotations

from ipu_runtime.plan.costs.op_costs import Costing, OpCost
from ipu_runtime.plan.costs.traced_costs import cost_traced
from ipu_runtime.plan.layers.kind import Kept, LayerKind, Settings, Shaped, ShapeError
from ipu_runtime.plan.model.model_spec import Layer, Shape
from ipu_runtime.plan.model.traced_ops import TracedWork


def _work(layer: Layer) -> TracedWork:
    assert layer.traced is not None
    return layer.traced


def _no_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    raise ShapeError("is known only from a built Keras model")


def _forward(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    work = _work(layer)
    ops = work.forward if cost.training else work.inference
    return [cost_traced(op, batch, cost) for op in ops]


def _backward(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    work = _work(layer)
    ops = work.backward if input_gradient else work.weights_backward
    return [cost_traced(op, batch, cost) for op in ops]


def _kept(layer: Layer) -> Kept:
    work = _work(layer)
    return Kept(work.keeps_input, work.keeps_output, work.kept_values, work.mask_bytes)


TRACED = LayerKind(
    "Traced",
    "Any other layer.",
    {},
    _no_shape,
    _forward,
    _backward,
    _kept,
)
