"""Cost of every layer of a model on one micro-batch, as named operations."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from ipu_runtime.plan.costs.op_costs import ADD, OTHER, UPDATE, Costing, OpCost
from ipu_runtime.plan.hardware import OptimizerCost
from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
from ipu_runtime.plan.model.shapes import kind_of


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


def sum_ops(ops: Iterable[OpCost]) -> Cycles:
    """Add operations up."""
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
    forward: tuple[OpCost, ...]
    backward: tuple[OpCost, ...]
    accumulate: tuple[OpCost, ...]
    """Adding the gradients to those of earlier micro-batches."""
    update: tuple[OpCost, ...]


def gradient_needed(model: ModelSpec) -> dict[str, bool]:
    """Tell for every layer whether something before or in it is trained."""
    needed: dict[str, bool] = {}
    for layer in model.layers:
        trained = any(weight.trainable for weight in layer.weights)
        needed[layer.name] = trained or any(needed[name] for name in layer.inputs)
    return needed


def count_consumers(model: ModelSpec) -> dict[str, int]:
    """Count how often every layer's output is taken."""
    consumers = {layer.name: 0 for layer in model.layers}
    for layer in model.layers:
        for name in layer.inputs:
            consumers[name] += 1
    return consumers


@functools.lru_cache(maxsize=64)
def _settings_keys(model: ModelSpec) -> tuple[str, ...]:
    """Return what every layer is set to, so that equal layers are costed once."""
    settings = ({**layer.spec.settings, "name": ""} for layer in model.layers)
    return tuple(repr(sorted(items.items())) for items in settings)


@functools.lru_cache(maxsize=512)
def cost_layers(work: LayerWork) -> tuple[LayerCost, ...]:
    """Cost the layers that can have a stage, in order."""
    model, batch, cost, optimizer, with_loss = work
    needed = gradient_needed(model)
    consumers = count_consumers(model)
    kinds = {layer.name: layer.kind for layer in model.layers}
    seen: dict[object, tuple[list[OpCost], list[OpCost]]] = {}
    costs = []
    for layer, settings in zip(model.layers, _settings_keys(model), strict=True):
        if layer.kind == "Input":
            continue
        input_gradient = any(needed[name] for name in layer.inputs)
        key = (layer.kind, settings, layer.input_shapes, layer.traced, input_gradient)
        if key not in seen:
            seen[key] = _own_ops(layer, batch, cost, input_gradient)
        forward, backward = list(seen[key][0]), list(seen[key][1])
        kind = kind_of(layer)
        if not cost.training and kinds[layer.inputs[0]] in kind.folds_into:
            forward = []
        if cost.training and needed[layer.name]:
            forks = consumers[layer.name] - 1
            total = batch * layer.output_size
            backward[:0] = [
                cost.passes("gradient add at fork", total, ADD) for _ in range(forks)
            ]
        else:
            backward = []
        if with_loss and layer.name in model.outputs:
            forward, backward = _with_loss(layer, batch, cost, forward, backward)
        trained = cost.training
        costs.append(
            LayerCost(
                layer,
                tuple(forward),
                tuple(backward),
                accumulate_ops(layer, cost) if trained else (),
                update_ops(layer, cost, optimizer) if trained else (),
            )
        )
    return tuple(costs)


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
    for weight in layer.weights:
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
    kind = kind_of(layer)
    forward = kind.forward(layer, batch, cost)
    if not cost.training:
        return forward, []
    return forward, kind.backward(layer, batch, cost, input_gradient)


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
    if layer.traced is not None or layer.kind == "MultiHeadAttention":
        last = backward[:1] and backward[0].name == "softmax gradient"
        rest = backward[1:] if last else backward
    else:
        rest = [op for op in backward if op.name != "softmax gradient"]
    return [*forward, loss], [gradient, *rest]
