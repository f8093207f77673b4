"""Cost of pipeline stages: sums of their layers, and what crosses between them."""

from __future__ import annotations

import functools
from itertools import islice
from typing import NamedTuple

from ipu_runtime.plan.costs.layer_costs import Cycles, LayerWork, cost_layers, sum_ops
from ipu_runtime.plan.memory.kept_tensors import recomputed_segments
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.model.shapes import kind_of
from ipu_runtime.plan.model.tensors import LABEL_BYTES, find_tensors


class LayerSums(NamedTuple):
    """A layer's operations, added up."""

    forward: Cycles
    backward: Cycles
    accumulate: Cycles
    update: Cycles


class StageSums(NamedTuple):
    """A stage's operations, added up, without the infeed."""

    forward: Cycles
    backward: Cycles
    accumulate: Cycles
    update: Cycles
    gradient_bytes: tuple[int, ...]
    """Of every trained variable."""


@functools.lru_cache(maxsize=512)
def sum_layers(work: LayerWork) -> tuple[LayerSums, ...]:
    """Add up the operations of every layer."""
    known: dict[int, LayerSums] = {}
    costs = cost_layers(work)
    for layer in costs:
        if layer.alike not in known:
            known[layer.alike] = LayerSums(
                sum_ops(layer.forward),
                sum_ops(layer.backward),
                sum_ops(layer.accumulate),
                sum_ops(layer.update),
            )
    return tuple(known[layer.alike] for layer in costs)


@functools.lru_cache(maxsize=1024)
def sum_stages(
    work: LayerWork, stage_of_layer: tuple[int, ...]
) -> tuple[StageSums, ...]:
    """Add up the layers of every stage."""
    stages = max(stage_of_layer) + 1
    sums = [[Cycles()] * 4 for _ in range(stages)]
    gradients: list[list[int]] = [[] for _ in range(stages)]
    for layer, own, stage in zip(
        work.model.stage_layers, sum_layers(work), stage_of_layer, strict=True
    ):
        sums[stage] = [
            total.plus(part) for total, part in zip(sums[stage], own, strict=True)
        ]
        gradients[stage] += [
            weight.size * work.model.weight_bytes
            for weight in layer.own_weights
            if weight.trainable
        ]
    return tuple(
        StageSums(total[0], total[1], total[2], total[3], tuple(sizes))
        for total, sizes in zip(sums, gradients, strict=True)
    )


@functools.lru_cache(maxsize=512)
def recomputed_forward(work: LayerWork, first: int = 0) -> Cycles:
    """Add up what layers from the first compute twice: all but the last segment.

    Layers that draw random numbers are not run again; their results are kept.
    """
    segments = recomputed_segments(work.model)
    total = Cycles()
    layers = zip(work.model.stage_layers, sum_layers(work), segments, strict=True)
    for layer, own, segment in islice(layers, first, None):
        if segment < segments[-1] and not kind_of(layer).stateful:
            total = total.plus(own.forward)
    return total


@functools.lru_cache(maxsize=1024)
def boundary_bytes(
    model: ModelSpec, batch: int, label_values: int, stage_of_layer: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Return the bytes that cross from each stage to the next, and come back.

    Everything that a later stage needs travels through all stages between, and so do
    the targets, which enter at the first stage.
    """
    boundaries = max(stage_of_layer)
    out = [label_values * LABEL_BYTES] * boundaries
    back = [0] * boundaries
    for tensor in find_tensors(model).tensors:
        first = stage_of_layer[tensor.maker] if tensor.maker >= 0 else 0
        last = max((stage_of_layer[user] for user in tensor.users), default=first)
        for boundary in range(first, last):
            out[boundary] += tensor.sample_bytes
            back[boundary] += tensor.sample_bytes if tensor.has_gradient else 0
    return tuple(
        (batch * there, batch * here) for there, here in zip(out, back, strict=True)
    )


def halve_stages(
    model: ModelSpec, batch: int, stage_of_layer: tuple[int, ...]
) -> tuple[int, ...]:
    """Cut every stage of two layers or more where half of its bytes lie before."""
    sizes = [
        layer.parameters * model.weight_bytes
        + batch * layer.output_size * model.value_bytes
        for layer in model.stage_layers
    ]
    result = list(stage_of_layer)
    shift = 0
    for stage in range(max(stage_of_layer) + 1):
        members = [at for at, own in enumerate(stage_of_layer) if own == stage]
        total, passed, cut = sum(sizes[at] for at in members), 0, len(members)
        for count, at in enumerate(members):
            if passed * 2 >= total and count:
                cut = count
                break
            passed += sizes[at]
        cut = min(cut, len(members) - 1) if len(members) > 1 else len(members)
        for count, at in enumerate(members):
            result[at] = stage + shift + (count >= cut)
        shift += len(members) > 1
    return tuple(result)
