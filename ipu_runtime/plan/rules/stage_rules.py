"""Rules for the assignment of layers to pipeline stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.pipeline_rules import (
    STAGES,
    check_mapping,
    check_one_ipu,
    check_recomputation,
    check_stage_count,
)
from ipu_runtime.plan.schedule.schedule import ScheduleKind


def check_stages(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is wrong with the stages of a pipelined request."""
    pipeline, training = request.pipeline, request.training
    if pipeline is None:
        return
    model, stages = request.model, pipeline.stage_of_layer
    layers, kind = model.stage_layers, pipeline.schedule
    if len(layers) < 2:
        text = f"the model has {len(layers)} layers, a pipeline needs two"
        yield Problem(STAGES, text)
        return
    for problem in _assignment_problems(layers, stages):
        yield replace(problem, suggestion=repaired_stages(model, stages))
    yield from check_mapping(pipeline.device_mapping, pipeline.stages, kind, training)
    yield from check_shared_weights(request)
    if not kind.on_ipu:
        yield Problem(
            "pipeline.schedule",
            f"the IPU has no schedule {kind.value}",
            "Grouped, Interleaved or Sequential; the others are for comparison",
            exception="TypeError",
            suggestion=ScheduleKind.GROUPED.value,
        )
    if training:
        yield from check_recomputation(kind, pipeline.recomputation)
        yield from _check_norms(model)


def repaired_stages(model: ModelSpec, stages: Sequence[int]) -> tuple[int, ...]:
    """Return the nearest legal assignment: along the data flow, without gaps."""
    layers = model.stage_layers
    last = max(stages, default=0)
    wanted = [*stages[: len(layers)], *[last] * (len(layers) - len(stages))]
    stage_of: dict[str, int] = {}
    for layer, stage in zip(layers, wanted, strict=True):
        sources = [stage_of.get(name, 0) for name in layer.inputs]
        stage_of[layer.name] = max(stage, *sources, 0)
    number = {stage: i for i, stage in enumerate(sorted(set(stage_of.values())))}
    if len(number) < 2:
        half = (len(layers) + 1) // 2
        return tuple(int(index >= half) for index in range(len(layers)))
    return tuple(number[stage_of[layer.name]] for layer in layers)


def check_data_flow(
    calls: Iterable[tuple[str, int, Sequence[str]]],
) -> Iterator[Problem]:
    """Yield calls that come before what they need, or before the first stage.

    Args:
        calls: Name, stage and the names of what it takes, of every layer call.
    """
    stage_of: dict[str, int] = {}
    for name, stage, sources in calls:
        if stage < 0:
            yield Problem(
                STAGES, f"layer {name} is in stage {stage}", "stages count from 0"
            )
        for source in sources:
            made = stage_of.get(source, 0)
            if made > stage:
                yield Problem(
                    STAGES,
                    f"layer {name} in stage {stage} has a dependency from a pipeline "
                    f"stage which has not yet been executed: {source} in stage {made}",
                    f"put {name} into stage {made} or later",
                )
        stage_of[name] = stage


def _assignment_problems(
    layers: Sequence[Layer], stages: Sequence[int]
) -> Iterator[Problem]:
    if len(stages) != len(layers):
        yield Problem(
            STAGES,
            f"{len(stages)} stages are given for {len(layers)} layers",
            f"name one stage for each of the {len(layers)} layers, inputs left out",
        )
    if not stages:
        return
    named = zip(layers, stages, strict=False)
    yield from check_data_flow(
        (layer.name, stage, layer.inputs) for layer, stage in named
    )
    used, top = set(stages), max(stages)
    if min(used) >= 0 and top + 1 > len(used):
        shown = [str(stage) for stage in range(min(top, 1000)) if stage not in used]
        more = " and more" if len(shown) > 8 else ""
        yield Problem(
            STAGES,
            "all stages in a pipeline must have at least one layer assigned, but "
            f"stage {', '.join(shown[:8])}{more} has none",
            f"use every stage from 0 to {top}, or number them 0 to {len(used) - 1}",
            exception="RuntimeError",
        )
    yield from check_stage_count(top + 1)


def check_shared_weights(request: PlanRequest) -> Iterator[Problem]:
    """Yield calls that share weights, but not an IPU."""
    pipeline = request.pipeline
    if pipeline is None:
        return
    stages, layers = pipeline.stage_of_layer, request.model.stage_layers
    mapping = pipeline.device_mapping
    if len(stages) != len(layers) or min(stages, default=0) < 0:
        return
    if mapping and len(mapping) != pipeline.stages:
        return
    ipu_of = {
        layer.name: mapping[stage] if mapping else stage
        for layer, stage in zip(layers, stages, strict=True)
    }
    for calls in request.model.shared:
        more = f" and {len(calls) - 2} more" if len(calls) > 2 else ""
        yield from check_one_ipu(
            f"layers {calls[0]}, {calls[1]}{more}",
            (ipu_of[name] for name in calls),
            "put them on one IPU, as balance does",
        )


def _check_norms(model: ModelSpec) -> Iterator[Problem]:
    norms = [
        layer.name
        for layer in model.layers
        if layer.kind == "BatchNormalization"
        and layer.spec.settings.get("momentum", 0.99) not in (0, 1)
    ]
    if norms:
        more = f" and {len(norms) - 1} more" if len(norms) > 1 else ""
        yield Problem(
            STAGES,
            f"the moving statistics of {norms[0]}{more} are not updated properly "
            "while a pipelined model is trained on a real IPU; here every forward "
            "pass updates them, in the order of micro-batches",
            "LayerNormalization keeps none",
            Severity.WARNING,
            exception="",
        )
