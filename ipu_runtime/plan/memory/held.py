"""What of a model's parameters stays on the tiles between two uses."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.plan import LayerPlan, PipelineRequest


class Held(NamedTuple):
    """Shares of what a layer has, for a replica."""

    weights: float = 1.0
    """1 is all of them; what is missing is gathered while a layer runs."""
    accumulators: bool = True

    @property
    def gathers(self) -> bool:
        """Whether weights are gathered before every use."""
        return self.weights < 1


ALL = Held()


def what_is_held(pipeline: PipelineRequest | None, replicas: int) -> Held:
    """Return what tiles hold; one replica alone has nobody to share weights with."""
    if pipeline is None:
        return ALL
    weights = 1.0
    if pipeline.shard_weights and replicas > 1:
        weights = 0.0 if pipeline.offload_weights else 1 / replicas
    return Held(weights, not pipeline.offload_accumulators)


class LargestLayer(NamedTuple):
    """The most that a layer of a stage has, in bytes."""

    weights: int
    trained: int


@functools.lru_cache(maxsize=512)
def largest_layers(
    model: ModelSpec, stage_of_layer: tuple[int, ...]
) -> tuple[LargestLayer, ...]:
    """Return the largest weights of every stage: what is there for one layer's run."""
    weights, trained = ([0] * (max(stage_of_layer) + 1) for _ in range(2))
    for layer, stage in zip(model.stage_layers, stage_of_layer, strict=True):
        weights[stage] = max(weights[stage], layer.parameters * model.weight_bytes)
        trained[stage] = max(trained[stage], layer.trained * model.weight_bytes)
    return tuple(map(LargestLayer, weights, trained))


def without_the_rest(
    layers: tuple[LayerPlan, ...],
    model: ModelSpec,
    held: Held,
    accumulates: bool,
) -> tuple[LayerPlan, ...]:
    """Return layers that hold only this: the rest is there while they run."""
    if held == ALL:
        return layers
    changed = []
    for layer, own in zip(layers, model.stage_layers, strict=True):
        weights = own.parameters * model.weight_bytes if held.gathers else 0
        summed = accumulates and not held.accumulators
        sums = own.trained * model.weight_bytes if summed else 0
        away = int(weights * (1 - held.weights)) + sums
        changed.append(
            replace(
                layer,
                memory_bytes=layer.memory_bytes - away,
                resident_bytes=layer.resident_bytes - away,
                working_bytes=layer.working_bytes + weights + sums,
            )
        )
    return tuple(changed)
