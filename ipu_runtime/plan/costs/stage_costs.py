"""Cost of pipeline stages: sums of their layers, and what crosses between them."""

from __future__ import annotations

import functools
from itertools import chain, islice
from typing import NamedTuple

from ipu_runtime.plan.costs.layer_costs import Cycles, LayerWork, cost_layers, sum_ops
from ipu_runtime.plan.layers.checkpoints import recomputed_segments
from ipu_runtime.plan.layers.shapes import kind_of
from ipu_runtime.plan.layers.tensors import LABEL_BYTES, find_tensors
from ipu_runtime.plan.model.model_spec import ModelSpec


class Sums(NamedTuple):
    """Operations of a layer or of a stage, added up, without the infeed."""

    forward: Cycles
    backward: Cycles
    accumulate: Cycles
    update: Cycles
    gradient_bytes: tuple[int, ...]
    """Of every trained variable."""


@functools.lru_cache(maxsize=512)
def sum_layers(work: LayerWork) -> tuple[Sums, ...]:
    """Add up the operations of every layer."""
    known: dict[int, Sums] = {}
    costs = cost_layers(work)
    for own in costs:
        if own.alike not in known:
            known[own.alike] = Sums(
                sum_ops(own.forward),
                sum_ops(own.backward),
                sum_ops(own.accumulate),
                sum_ops(own.update),
                tuple(
                    weight.size * work.model.weight_bytes
                    for weight in own.layer.own_weights
                    if weight.trainable
                ),
            )
    return tuple(known[own.alike] for own in costs)


@functools.lru_cache(maxsize=1024)
def sum_stages(work: LayerWork, stage_of_layer: tuple[int, ...]) -> tuple[Sums, ...]:
    """Add up the layers of every stage."""
    stages: list[list[Sums]] = [[] for _ in range(max(stage_of_layer) + 1)]
    for own, stage in zip(sum_layers(work), stage_of_layer, strict=True):
        stages[stage].append(own)
    return tuple(
        Sums(
            sum_ops(layer.forward for layer in layers),
            sum_ops(layer.backward for layer in layers),
            sum_ops(layer.accumulate for layer in layers),
            sum_ops(layer.update for layer in layers),
            tuple(chain.from_iterable(layer.gradient_bytes for layer in layers)),
        )
        for layers in stages
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
