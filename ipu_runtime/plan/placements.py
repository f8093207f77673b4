"""Where a pipeline's tensors live: on the tiles, with other replicas, or off chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    # Schedules need numpy, and forms that list these names do without.
    from ipu_runtime.plan.request import PipelineRequest

PLACEMENTS = {
    "offload_activations": "offload_activations",
    "offload_weight_update_variables": "offload_optimizer_state",
    "replicated_optimizer_state_sharding": "shard_optimizer_state",
    "offload_gradient_accumulation_buffers": "offload_accumulators",
    "replicated_weight_sharding": "shard_weights",
    "offload_weights": "offload_weights",
}
"""Fields of a `PipelineRequest` by the names that the API has for them."""


def placements(arguments: Mapping[str, Any]) -> dict[str, bool]:
    """Return what arguments of a pipeline say, by the API's names.

    Weights that replicas share are offloaded unless the script says otherwise.
    """
    given = {name: arguments.get(name) for name in PLACEMENTS}
    if given["offload_weights"] is None:
        given["offload_weights"] = given["replicated_weight_sharding"]
    return {name: bool(value) for name, value in given.items()}


def requested(arguments: Mapping[str, Any]) -> dict[str, bool]:
    """Return the same by the names of a `PipelineRequest`."""
    return {PLACEMENTS[name]: value for name, value in placements(arguments).items()}


def placed(pipeline: PipelineRequest) -> dict[str, bool]:
    """Return what a `PipelineRequest` says, by the API's names."""
    return {name: getattr(pipeline, own) for name, own in PLACEMENTS.items()}


class Residency(NamedTuple):
    """What of a layer's parameters stays on a replica's tiles between two uses."""

    weights: float = 1.0
    """1 is all of them; what is missing is gathered while a layer runs."""
    accumulators: bool = True

    @property
    def gathers(self) -> bool:
        """Whether weights are gathered before every use."""
        return self.weights < 1


ALL_RESIDENT = Residency()


def residency_of(pipeline: PipelineRequest | None, replicas: int) -> Residency:
    """Return what stays; one replica alone has nobody to share weights with."""
    if pipeline is None:
        return ALL_RESIDENT
    weights = 1.0
    if pipeline.shard_weights and replicas > 1:
        weights = 0.0 if pipeline.offload_weights else 1 / replicas
    return Residency(weights, not pipeline.offload_accumulators)
