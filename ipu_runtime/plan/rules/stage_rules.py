"""Rules for the assignment of layers to pipeline stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
from ipu_runtime.plan.plan import PipelineRequest, PlanRequest
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.schedule.building import recomputation_allowed
from ipu_runtime.plan.schedule.schedule import ScheduleKind

STAGES = "pipeline.stages"
MAPPING = "pipeline.device_mapping"


def check_stages(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is wrong with the stages of a pipelined request."""
    if request.pipeline is None:
        return
    yield from _check_assignment(request.model, request.pipeline.stage_of_layer)
    yield from _check_mapping(request, request.pipeline)
    yield from _check_recomputation(request, request.pipeline)
    yield from _check_norms(request)


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


def is_chain(layers: Sequence[Layer]) -> bool:
    """Return whether every layer takes exactly what the one before it gives."""
    return all(layer.inputs == (before.name,) for before, layer in pairwise(layers))


def _check_assignment(model: ModelSpec, stages: Sequence[int]) -> Iterator[Problem]:
    layers = model.stage_layers
    count = len(layers)
    if count < 2:
        yield Problem(STAGES, f"the model has {count} layers, a pipeline needs two")
        return

    def wrong(problem: str, hint: str = "", exception: str = "ValueError") -> Problem:
        suggestion = repaired_stages(model, stages)
        return Problem(
            STAGES, problem, hint, exception=exception, suggestion=suggestion
        )

    if len(stages) != count:
        yield wrong(
            f"{len(stages)} stages are given for {count} layers",
            f"name one stage for each of the {count} layers, inputs left out",
        )
    named = list(zip(layers, stages, strict=False))
    for layer, stage in named:
        if stage < 0:
            yield wrong(f"{layer.name} is in stage {stage}", "stages count from 0")
            return
    if not stages:
        return
    yield from (wrong(*texts) for texts in _flow_problems(named, is_chain(layers)))
    used, top = set(stages), max(stages)
    if top + 1 > len(used) and not is_chain(layers):
        shown = [str(stage) for stage in range(min(top, 1000)) if stage not in used]
        more = " and more" if len(shown) > 8 else ""
        yield wrong(
            f"no layer is in stage {', '.join(shown[:8])}{more}",
            f"use every stage from 0 to {top}, or number them 0 to {len(used) - 1}",
            "RuntimeError",
        )
    if top < 1:
        yield wrong(
            "all layers are in stage 0, a pipeline needs at least two stages",
            "move the last layers to stage 1, or leave the list empty",
        )


def _flow_problems(
    named: Sequence[tuple[Layer, int]], chain: bool
) -> Iterator[tuple[str, str]]:
    """Yield problem and hint of layers that do not follow the data."""
    if chain and named[0][1] != 0:
        first, stage = named[0]
        yield f"the first layer, {first.name}, is in stage {stage}", "start at stage 0"
    stage_of = {layer.name: stage for layer, stage in named}
    for position, (layer, stage) in enumerate(named):
        for source in layer.inputs:
            if stage_of.get(source, 0) > stage:
                yield (
                    f"{layer.name} in stage {stage} needs {source}, which stage "
                    f"{stage_of[source]} computes later",
                    f"put {layer.name} into stage {stage_of[source]} or later",
                )
        before = named[position - 1][1] if position else stage
        if chain and stage > before + 1:
            yield (
                f"{layer.name} is in stage {stage}, the layer before it in {before}",
                f"put it into stage {before} or {before + 1}",
            )


def _check_mapping(
    request: PlanRequest, pipeline: PipelineRequest
) -> Iterator[Problem]:
    mapping, stages = pipeline.device_mapping, pipeline.stages
    if not mapping:
        return
    if len(mapping) != stages:
        yield Problem(
            MAPPING,
            f"names {len(mapping)} IPUs for {stages} stages",
            f"name {stages} IPUs, or none for one IPU per stage",
            suggestion=(),
        )
    if min(mapping) < 0:
        yield Problem(
            MAPPING,
            f"there is no IPU {min(mapping)}",
            "IPUs count from 0",
            suggestion=(),
        )
    shared = len(set(mapping)) < len(mapping)
    if shared and request.training and pipeline.schedule is ScheduleKind.INTERLEAVED:
        yield Problem(
            MAPPING,
            f"stages share an IPU in {list(mapping)}, which Interleaved cannot train",
            "give every stage its own IPU, or take Grouped or Sequential",
            exception="NotImplementedError",
            suggestion=(),
        )


def _check_recomputation(
    request: PlanRequest, pipeline: PipelineRequest
) -> Iterator[Problem]:
    kind, mode = pipeline.schedule, pipeline.recomputation
    if not kind.on_ipu:
        yield Problem(
            "pipeline.schedule",
            f"the IPU has no schedule {kind.value}",
            "Grouped, Interleaved or Sequential; the others are for comparison",
            exception="TypeError",
            suggestion=ScheduleKind.GROUPED.value,
        )
    elif request.training and not recomputation_allowed(kind, mode):
        yield Problem(
            "pipeline.recomputation",
            f"{mode.value} does not work with {kind.value}",
            "Auto picks the mode that does",
            exception="UnimplementedError",
            suggestion="Auto",
        )


def _check_norms(request: PlanRequest) -> Iterator[Problem]:
    if not request.training:
        return
    norms = [
        layer.name
        for layer in request.model.layers
        if layer.kind == "BatchNormalization"
        and layer.spec.settings.get("momentum", 0.99) not in (0, 1)
    ]
    if norms:
        more = f" and {len(norms) - 1} more" if len(norms) > 1 else ""
        yield Problem(
            STAGES,
            f"a pipeline does not update moving statistics properly: {norms[0]}{more}",
            "LayerNormalization keeps none",
            Severity.WARNING,
            exception="",
        )
