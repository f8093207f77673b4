"""Arguments of a pipeline that say where things live, which only the plan minds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def placed(pipeline: object) -> dict[str, bool]:
    """Return what a `PipelineRequest` says, by the API's names."""
    return {name: getattr(pipeline, own) for name, own in PLACEMENTS.items()}
