"""How many IPUs a copy of the model takes, and how many copies a device holds."""

from __future__ import annotations

from ipu_runtime.plan.request import PipelineRequest, PlanRequest

_STEADY_STEPS = 1000


def shard_count(pipeline: PipelineRequest | None) -> int:
    """Return how many IPUs one replica needs, before rounding up."""
    if pipeline is None:
        return 1
    if pipeline.device_mapping:
        return max(max(pipeline.device_mapping) + 1, 1)
    return max(pipeline.stages, 1)


def reserved_ipus(shards: int) -> int:
    """Return the IPUs that are reserved for so many: a power of two."""
    return 1 << (shards - 1).bit_length()


def ipus_per_replica(pipeline: PipelineRequest | None) -> int:
    """Return how many IPUs one replica reserves."""
    return reserved_ipus(shard_count(pipeline))


def replica_count(request: PlanRequest) -> int:
    """Return how many replicas the device holds; 0 when not even one."""
    return max(request.ipus, 0) // ipus_per_replica(request.pipeline)


def steps_per_replica(request: PlanRequest) -> int:
    """Return the steps that each replica runs per epoch."""
    replicas = replica_count(request)
    return max(request.batches, 0) // replicas if replicas else 0


def steps_of_execution(request: PlanRequest) -> int:
    """Return the steps of one execution on each replica, at most those of an epoch."""
    if not request.steady:
        return max(min(request.steps_per_execution, steps_per_replica(request)), 1)
    if request.training:
        return steady_steps(request.gradient_accumulation)
    return steady_steps(request.pipeline.stages if request.pipeline else 1)


def steady_steps(unit: int) -> int:
    """Return the steps of an execution in a steady state, in units of so many.

    About as many as an epoch of the documents' MNIST has.
    """
    return -(-_STEADY_STEPS // max(unit, 1)) * max(unit, 1)
