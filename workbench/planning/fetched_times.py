"""Which layers of a pipeline wait for what is not on the tiles, and how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ipu_runtime.plan.plan import LayerPlan, Plan, StagePlan


class FetchedTimes(NamedTuple):
    """Times of every layer on one micro-batch."""

    forward_us: tuple[float, ...]
    backward_us: tuple[float, ...]
    again_us: tuple[float, ...]


def fetched_times(plan: Plan) -> FetchedTimes:
    """Share out among layers what their stages wait for, by bytes."""
    layers, pipeline = plan.layers, plan.request.pipeline
    if pipeline is None:
        return FetchedTimes(*[(0.0,) * len(layers)] * 3)
    waiting = {stage.index for stage in plan.stages if stage.fifo_depth}
    kept = [
        layer.stash_bytes * (pipeline.offload_activations and layer.stage in waiting)
        for layer in layers
    ]
    weights = [layer.parameters * pipeline.shard_weights for layer in layers]
    sums = [layer.parameters * pipeline.offload_accumulators for layer in layers]
    forward = [sum(sizes) for sizes in zip(kept, weights, strict=True)]
    backward = [sum(sizes) for sizes in zip(forward, sums, strict=True)]
    every = plan.stages
    backward_us = _shared_out(plan, every, backward, _backward_us, _backward_us)
    # In its forward pass the first stage also waits for the host.
    forward_us = _shared_out(plan, every[1:], forward, _forward_us, _forward_us)
    if plan.request.training and not pipeline.offload_accumulators:
        forward_us = backward_us
    return FetchedTimes(
        forward_us,
        backward_us,
        _shared_out(plan, every, weights, lambda own: own.recompute_us, _forward_us),
    )


def _forward_us(item: StagePlan | LayerPlan) -> float:
    return item.forward_us


def _backward_us(item: StagePlan | LayerPlan) -> float:
    return item.backward_us


def _shared_out(
    plan: Plan,
    among: Sequence[StagePlan],
    moved: Sequence[int],
    stage_us: Callable[[StagePlan], float],
    layer_us: Callable[[LayerPlan], float],
) -> tuple[float, ...]:
    stages = {stage.index for stage in among if stage_us(stage)}
    waited = sum(map(stage_us, among))
    size = 0
    for layer, own in zip(plan.layers, moved, strict=True):
        if layer.stage in stages:
            waited, size = waited - layer_us(layer), size + own
    rate = waited / size if size else 0.0
    return tuple(rate * own for own in moved)
