"""Cost of every layer of a model on one micro-batch, as named operations."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from ipu_runtime.plan.costs.op_costs import ADD, OTHER, UPDATE, Costing, OpCost
from ipu_runtime.plan.costs.operation_costs import cost_operation
from ipu_runtime.plan.hardware import OptimizerCost
from ipu_runtime.plan.layers.shapes import (
    backward_operations,
    forward_operations,
    kind_of,
)
from ipu_runtime.plan.model.model_spec import (
    Layer,
    ModelSpec,
    count_consumers,
    gradient_needed,
)


class Cycles(NamedTuple):
    """A sum of operations."""

    compute: float = 0.0
    exchange: float = 0.0
    supersteps: int = 0

    @property
    def work(self) -> float:
        """Cycles without the fixed cost of supersteps."""
        return self.compute + self.exchange

    def plus(self, other: Cycles) -> Cycles:
        """Add another sum."""
        return Cycles(
            self.compute + other.compute,
            self.exchange + other.exchange,
            self.supersteps + other.supersteps,
        )


def sum_ops(ops: Iterable[OpCost | Cycles]) -> Cycles:
    """Add operations up, or sums of them."""
    compute = exchange = 0.0
    supersteps = 0
    for op in ops:
        compute += op.compute
        exchange += op.exchange
        supersteps += op.supersteps
    return Cycles(compute, exchange, supersteps)


class LayerWork(NamedTuple):
    """One micro-batch through a model: what the cost of its layers depends on."""

    model: ModelSpec
    batch: int
    cost: Costing
    optimizer: OptimizerCost
    with_loss: bool
    """Whether targets come along, as in training and evaluation."""


class LayerCost(NamedTuple):
    """Operations of one layer, by when they run."""

    layer: Layer
    alike: int
    """Layers of one number have the same operations."""
    forward: tuple[OpCost, ...]
    backward: tuple[OpCost, ...]
    accumulate: tuple[OpCost, ...]
    """Adding the gradients to those of earlier micro-batches."""
    update: tuple[OpCost, ...]


@functools.lru_cache(maxsize=512)
def cost_layers(work: LayerWork) -> tuple[LayerCost, ...]:
    """Cost the layers that can have a stage, in order."""
    model = work.model
    if model.ordered is not model:
        # The order changes no cost, and plans need both.
        ordered = cost_layers(work._replace(model=model.ordered))
        by_name = {own.layer.name: own for own in ordered}
        return tuple(by_name[layer.name] for layer in model.stage_layers)
    needed = gradient_needed(model)
    consumers = count_consumers(model)
    kinds = {layer.name: layer.kind for layer in model.layers}
    own: dict[object, tuple[list[OpCost], list[OpCost]]] = {}
    seen: dict[object, LayerCost] = {}
    costs = []
    for layer, number in zip(model.layers, model.alike, strict=True):
        if layer.kind == "Input":
            continue
        call = _Call(
            input_gradient=any(needed[name] for name in layer.inputs),
            before="" if work.cost.training else kinds[layer.inputs[0]],
            forks=consumers[layer.name] - 1,
            makes_loss=work.with_loss and layer.name in model.outputs,
        )
        if (number, call) not in seen:
            key = number, call.input_gradient
            if key not in own:
                own[key] = _own_ops(layer, work.batch, work.cost, call.input_gradient)
            seen[number, call] = _in_place(layer, len(seen), own[key], call, work)
        costs.append(seen[number, call]._replace(layer=layer))
    return tuple(costs)


class _Call(NamedTuple):
    """What the cost of a layer depends on besides the layer itself."""

    input_gradient: bool
    before: str
    """Kind of the layer that it takes first, where it may become a part of that."""
    forks: int
    """How many layers take its output besides the first."""
    makes_loss: bool


def _in_place(
    layer: Layer,
    alike: int,
    own: tuple[list[OpCost], list[OpCost]],
    call: _Call,
    work: LayerWork,
) -> LayerCost:
    """Cost a layer where it stands in its model."""
    (forward, backward), cost = own, work.cost
    if call.before in kind_of(layer).folds_into:
        forward = []
    trained = any(weight.trainable for weight in layer.weights)
    if cost.training and (trained or call.input_gradient):
        if call.forks:
            total = work.batch * layer.output_size
            fork = cost.passes("gradient add at fork", total, ADD)
            backward = [fork] * call.forks + backward
    else:
        backward = []
    if call.makes_loss:
        forward, backward = _with_loss(layer, work.batch, cost, forward, backward)
    of_weights = cost._replace(half=work.model.weight_bytes == 2)
    return LayerCost(
        layer,
        alike,
        tuple(forward),
        tuple(backward),
        accumulate_ops(layer, of_weights) if cost.training else (),
        update_ops(layer, of_weights, work.optimizer) if cost.training else (),
    )


def infeed_op(values: int, cost: Costing, *, rearranged_on_host: bool) -> OpCost:
    """Cost what the device does with one micro-batch that arrives from the host."""
    if rearranged_on_host:
        return OpCost("infeed copy", 0.0, 0.0, 1, shape=(values,))
    return cost.passes("infeed rearrangement", values, ADD, count=2, supersteps=3)


def accumulate_ops(layer: Layer, cost: Costing) -> tuple[OpCost, ...]:
    """Cost adding each gradient to its accumulator."""
    return tuple(
        cost.passes(f"accumulate {weight.name}", weight.size, ADD)
        for weight in layer.weights
        if weight.trainable
    )


def update_ops(
    layer: Layer, cost: Costing, optimizer: OptimizerCost
) -> tuple[OpCost, ...]:
    """Cost the weight update of each variable."""
    ops = []
    for weight in layer.own_weights:
        if not weight.trainable:
            continue
        op = cost.passes(
            f"update {weight.name}",
            weight.size,
            UPDATE,
            count=optimizer.passes,
            supersteps=optimizer.supersteps,
        )
        if optimizer.reductions:
            norm = cost.reduction("norm", weight.size, 1)
            op = op._replace(
                compute=op.compute + optimizer.reductions * norm.compute,
                exchange=op.exchange + optimizer.reductions * norm.exchange,
            )
        ops.append(op)
    return tuple(ops)


def _own_ops(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> tuple[list[OpCost], list[OpCost]]:
    forward = forward_operations(layer, cost.training)
    backward = backward_operations(layer, input_gradient) if cost.training else ()
    return (
        [cost_operation(op, batch, cost) for op in forward],
        [cost_operation(op, batch, cost) for op in backward],
    )


def _with_loss(
    layer: Layer,
    batch: int,
    cost: Costing,
    forward: list[OpCost],
    backward: list[OpCost],
) -> tuple[list[OpCost], list[OpCost]]:
    total = batch * layer.output_size
    loss = cost.passes("loss and accuracy", total, OTHER, count=6, supersteps=12)
    if not cost.training:
        return [*forward, loss], []
    gradient = cost.passes("loss gradient", total, OTHER, count=2, supersteps=5)
    # The gradient of the loss with respect to the logits includes the softmax.
    last = bool(backward) and backward[0].name == "softmax gradient"
    rest = backward[1:] if last else backward
    return [*forward, loss], [gradient, *rest]
