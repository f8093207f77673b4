"""Changes of a request that need less memory, to be planned when it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ipu_runtime.plan.costs.stage_costs import halve_stages
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.plan import IpuMemory
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica, replica_count
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

_PROPORTIONS = (0.4, 0.2, 0.1, 0.05)
_OPTIONS = ("convolutions.poplar_options", "matmuls.poplar_options")


class Remedy(NamedTuple):
    """One kind of change, with values to try until one fits."""

    where: str
    candidates: Iterator[tuple[object, PlanRequest]]
    shrinking: bool = True
    """Whether each candidate needs less memory than the one before."""


def find_remedies(
    request: PlanRequest, memory: tuple[IpuMemory, ...], system_ipus: int
) -> Iterator[Remedy]:
    """Yield what might help, the least intrusive first."""
    pipeline = request.pipeline
    if request.training:
        yield from _recomputation(request)
        if pipeline is not None and pipeline.schedule is ScheduleKind.GROUPED:
            changed = replace(pipeline, schedule=ScheduleKind.INTERLEAVED)
            value = ScheduleKind.INTERLEAVED.value
            candidate = (value, replace(request, pipeline=changed))
            yield Remedy("pipeline.schedule", iter([candidate]))
        if pipeline is not None:
            yield from _elsewhere(request, pipeline, memory)
    temporaries = max(item.by_category["temporaries"] for item in memory)
    if temporaries:
        yield Remedy(f"ipu.{_OPTIONS[0]}", _proportions(request))
    yield Remedy("pipeline.stages", _more_stages(request, system_ipus), shrinking=False)
    yield Remedy("data.batch_size", _smaller_batches(request))


def _elsewhere(
    request: PlanRequest, pipeline: PipelineRequest, memory: tuple[IpuMemory, ...]
) -> Iterator[Remedy]:
    """Put out of the tiles what a pipeline has there, one kind at a time."""
    useful = {
        "offload_activations": not pipeline.offload_activations,
        "offload_weight_update_variables": any(
            item.by_category["optimizer"] for item in memory
        ),
        "offload_gradient_accumulation_buffers": not pipeline.offload_accumulators,
        "replicated_weight_sharding": not pipeline.shard_weights
        and replica_count(request) > 1,
    }
    for name in (name for name, helps in useful.items() if helps):
        moved: dict[str, Any] = {PLACEMENTS[name]: True}
        changed = replace(pipeline, **moved)
        candidate = (True, replace(request, pipeline=changed))
        yield Remedy(f"pipeline.{name}", iter([candidate]))


def _recomputation(request: PlanRequest) -> Iterator[Remedy]:
    config = {**request.config, "allow_recompute": True}
    pipeline = request.pipeline
    if pipeline is None:
        if request.config.get("allow_recompute"):
            return
    elif pipeline.recomputation is Recomputation.OFF:
        sequential = pipeline.schedule is ScheduleKind.SEQUENTIAL
        mode = (
            Recomputation.WITH_BACKPROPAGATE
            if sequential
            else Recomputation.THEN_BACKPROPAGATE
        )
        pipeline = replace(pipeline, recomputation=mode)
    else:
        return
    changed = replace(request, config=config, pipeline=pipeline)
    yield Remedy("ipu.allow_recompute", iter([(True, changed)]))


def _proportions(request: PlanRequest) -> Iterator[tuple[object, PlanRequest]]:
    for proportion in _PROPORTIONS:
        config = dict(request.config)
        for path in _OPTIONS:
            options = dict(config.get(path, {}))
            current = _number(options.get("availableMemoryProportion", "0.6"))
            options["availableMemoryProportion"] = str(min(proportion, current))
            config[path] = options
        yield config[_OPTIONS[0]], replace(request, config=config)


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return 1.0


def _smaller_batches(request: PlanRequest) -> Iterator[tuple[object, PlanRequest]]:
    batch = request.batch_size // 2
    while batch >= 1:
        yield batch, replace(request, batch_size=batch)
        batch //= 2


def _more_stages(
    request: PlanRequest, system_ipus: int
) -> Iterator[tuple[object, PlanRequest]]:
    """Cut every stage in half, on twice the IPUs, and again."""
    pipeline = request.pipeline
    if pipeline is not None and pipeline.device_mapping:
        return
    layers = len(request.model.stage_layers)
    stages = pipeline.stage_of_layer if pipeline else (0,) * layers
    while True:
        halves = halve_stages(request.model, request.batch_size, stages)
        if max(halves) == max(stages):
            return
        stages = halves
        changed = _with_stages(request, stages)
        if changed.ipus > system_ipus:
            return
        yield list(stages), changed


def _with_stages(request: PlanRequest, stages: tuple[int, ...]) -> PlanRequest:
    base = request.pipeline or PipelineRequest(stages)
    pipeline = replace(base, stage_of_layer=stages)
    mapping = tuple(range(pipeline.stages))
    multiple = overlap_length(pipeline.schedule, mapping, request.training)
    accumulation = -(-request.gradient_accumulation // multiple) * multiple
    needed = ipus_per_replica(pipeline)
    return replace(
        request,
        pipeline=pipeline,
        gradient_accumulation=accumulation,
        steps_per_execution=-(-request.steps_per_execution // accumulation)
        * accumulation,
        ipus=max(request.ipus, needed),
    )
