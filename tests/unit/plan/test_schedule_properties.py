"""Any legal pipeline gives a sound schedule; any illegal one gives a problem."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.request_checks import check_request
from ipu_runtime.plan.schedule.building import (
    build_schedule,
    overlap_length,
    recomputation_allowed,
)
from ipu_runtime.plan.schedule.schedule import (
    Action,
    Phase,
    Recomputation,
    Schedule,
    ScheduleKind,
)
from ipu_runtime.plan.schedule.timeline import (
    Clock,
    StageTimes,
    build_timeline,
    pipeline_time_us,
)

IPU_KINDS = [kind for kind in ScheduleKind if kind.on_ipu]
F, B, R, W = Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE, Phase.WEIGHT_GRADIENT


def dense_model(links: list[tuple[int, ...]]) -> ModelSpec:
    """Return a model whose layer `i` takes the layers `links[i]`; -1 is the input."""
    layers = [Layer(LayerSpec("x", "Input", {"shape": [4]}), (), (4,))]
    for index, sources in enumerate(links):
        names = tuple("x" if at < 0 else f"l{at}" for at in sources)
        kind = "Dense" if len(names) == 1 else "Add"
        spec = LayerSpec(f"l{index}", kind, {}, names)
        layers.append(Layer(spec, ((4,),) * len(names), (4,)))
    return ModelSpec(tuple(layers), (layers[-1].name,))


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Return a chain or a graph with skip connections."""
    links: list[tuple[int, ...]] = []
    skips = draw(st.booleans())
    for index in range(draw(st.integers(2, 10))):
        sources = {index - 1}
        if skips and index > 1 and draw(st.booleans()):
            sources.add(draw(st.integers(-1, index - 2)))
        links.append(tuple(sorted(sources)))
    return links


@st.composite
def legal_requests(draw: st.DrawFn) -> PlanRequest:
    links = draw(graphs())
    count = len(links)
    stages = draw(st.integers(2, min(count, 6)))
    cuts = sorted(
        draw(
            st.sets(st.integers(1, count - 1), min_size=stages - 1, max_size=stages - 1)
        )
    )
    assignment = tuple(
        int(np.searchsorted(cuts, i, side="right")) for i in range(count)
    )
    kind = draw(st.sampled_from(IPU_KINDS))
    mapping: tuple[int, ...] = ()
    if draw(st.booleans()):
        unique = kind is ScheduleKind.INTERLEAVED
        mapping = tuple(
            draw(
                st.lists(
                    st.integers(0, 7), min_size=stages, max_size=stages, unique=unique
                )
            )
        )
    modes = [m for m in Recomputation if recomputation_allowed(kind, m)]
    overlap = overlap_length(kind, mapping or tuple(range(stages)), True)
    accumulation = overlap * draw(st.integers(1, 3))
    return PlanRequest(
        model=dense_model(links),
        batch_size=draw(st.integers(1, 8)),
        batches=8 * accumulation * 2,
        ipus=8,
        system="Pod16",
        steps_per_execution=accumulation,
        gradient_accumulation=accumulation,
        pipeline=PipelineRequest(
            assignment, kind, draw(st.sampled_from(modes)), mapping
        ),
    )


def needed(action: Action, schedule: Schedule) -> list[Action]:
    """Return what must have run before an action."""
    stage, phase, number = action
    last = schedule.stages - 1
    if phase is F:
        return [Action(stage - 1, F, number)] if stage else []
    if phase is R:
        return [Action(stage, F, number)]
    if phase is W:
        return [Action(stage, B, number)]
    before = [Action(stage, F, number)]
    if stage < last:
        before.append(Action(stage + 1, B, number))
        if schedule.recomputation is Recomputation.THEN_BACKPROPAGATE:
            before.append(Action(stage, R, number))
    return before


def assert_sound(schedule: Schedule) -> None:
    """Check that every task runs once and after what it needs."""
    slot_of: dict[Action, int] = {}
    for index, slot in enumerate(schedule.slots):
        for action in slot:
            assert action not in slot_of
            slot_of[action] = index
    stages, numbers = range(schedule.stages), range(schedule.micro_batches)
    phases = [F, B] if schedule.training else [F]
    for phase in phases:
        assert {(s, n) for s, p, n in slot_of if p is phase} == {
            (s, n) for s in stages for n in numbers
        }
    for action, slot in slot_of.items():
        for before in needed(action, schedule):
            assert slot_of[before] < slot
    for stage in stages:
        for phase in phases:
            slots = [slot_of[Action(stage, phase, number)] for number in numbers]
            assert all(a < b for a, b in pairwise(slots))
    flat = [slot for step in schedule.program_steps for slot in step]
    assert flat == list(range(len(schedule.slots)))


def schedule_of(request: PlanRequest) -> Schedule:
    pipeline = request.pipeline
    assert pipeline is not None
    return build_schedule(
        pipeline.schedule,
        pipeline.stages,
        request.gradient_accumulation,
        recomputation=pipeline.recomputation,
        device_mapping=pipeline.device_mapping,
    )


@settings(max_examples=80)
@given(legal_requests())
def test_legal_assignment_gives_a_sound_schedule(request: PlanRequest) -> None:
    errors = [p for p in check_request(request) if p.severity is Severity.ERROR]
    assert errors == []
    assert_sound(schedule_of(request))


@settings(max_examples=50)
@given(legal_requests(), st.data())
def test_intervals_never_overlap_and_fill_the_total(
    request: PlanRequest, data: st.DataObject
) -> None:
    pipeline, schedule = request.pipeline, schedule_of(request)
    assert pipeline is not None
    column = st.lists(
        st.integers(0, 9), min_size=pipeline.stages, max_size=pipeline.stages
    )
    times = StageTimes(
        *(tuple(map(float, data.draw(column))) for _ in range(3)),
        copy_us=float(data.draw(st.integers(0, 3))),
    )
    clock = data.draw(st.sampled_from(Clock))
    timeline = build_timeline(schedule, times, clock)
    assert pipeline_time_us(schedule, times, clock) == pytest.approx(timeline.total_us)
    busy = 0.0
    for ipu in timeline.ipus:
        intervals = list(timeline.intervals(ipu))
        busy += sum(i.end_us - i.start_us for i in intervals)
        for before, after in pairwise(intervals):
            assert before.end_us <= after.start_us + 1e-9
        assert all(i.end_us <= timeline.total_us + 1e-9 for i in intervals)
    assert busy <= timeline.total_us * len(timeline.ipus) + 1e-6
    slower = build_timeline(schedule, times, Clock.SLOT).total_us
    if not times.copy_us:
        assert build_timeline(schedule, times, Clock.STEP).total_us <= slower + 1e-9


@st.composite
def broken_requests(draw: st.DrawFn) -> PlanRequest:
    """Return a request in which anything may be wrong."""
    links = draw(graphs())
    number = st.integers(-3, 12)
    wild = number | st.integers(-(10**9), 10**9)
    return PlanRequest(
        model=dense_model(links),
        batch_size=draw(number),
        batches=draw(wild),
        ipus=draw(wild),
        system=draw(st.sampled_from(["M2000", "Pod16", "pod 64", "m200", ""])),
        steps_per_execution=draw(wild),
        gradient_accumulation=draw(wild),
        training=draw(st.booleans()),
        config=draw(
            st.sampled_from([{}, {"io_tiles.num_io_tiles": 32}, {"io_tiles": None}])
        ),
        pipeline=draw(
            st.none()
            | st.builds(
                PipelineRequest,
                st.lists(wild, max_size=12).map(tuple),
                st.sampled_from(ScheduleKind),
                st.sampled_from(Recomputation),
                st.lists(wild, max_size=8).map(tuple),
            )
        ),
    )


@settings(max_examples=150)
@given(broken_requests())
def test_illegal_request_gives_problems_never_exceptions(request: PlanRequest) -> None:
    problems = check_request(request)
    pipeline = request.pipeline
    if pipeline is not None:
        stages = pipeline.stage_of_layer
        flows = _flows(request.model, stages)
        if not flows or set(stages) != set(range(len(set(stages)))):
            assert any(problem.where == "pipeline.stages" for problem in problems)
    for problem in problems:
        assert problem.where
        assert problem.problem


def _flows(model: ModelSpec, stages: tuple[int, ...]) -> bool:
    """Return whether an assignment is complete and every layer follows its inputs."""
    layers = model.stage_layers
    if len(stages) != len(layers) or min(stages) < 0 or max(stages) < 1:
        return False
    stage_of = dict(zip((layer.name for layer in layers), stages, strict=True))
    return all(
        stage_of.get(source, 0) <= stage_of[layer.name]
        for layer in layers
        for source in layer.inputs
    )


@settings(max_examples=80)
@given(graphs(), st.data())
def test_suggested_stages_are_legal(
    links: list[tuple[int, ...]], data: st.DataObject
) -> None:
    stages = data.draw(st.lists(st.integers(-2, 6), max_size=12).map(tuple))
    request = PlanRequest(
        dense_model(links), 4, 4096, ipus=16, system="Pod16", gradient_accumulation=8
    )
    wrong = replace(request, pipeline=PipelineRequest(stages))
    found = [p for p in check_request(wrong) if p.where == "pipeline.stages"]
    if not found:
        return
    suggestion = found[0].suggestion
    assert isinstance(suggestion, tuple)
    repaired = replace(request, pipeline=PipelineRequest(suggestion))
    assert not [p for p in check_request(repaired) if p.where == "pipeline.stages"]


@pytest.mark.parametrize("kind", [k for k in ScheduleKind if not k.on_ipu])
def test_other_schedules_are_sound_too(kind: ScheduleKind) -> None:
    assert_sound(build_schedule(kind, 4, 8))


def test_131072_tasks_are_timed_without_looking_at_each() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 64, 1024)
    times = StageTimes(tuple(map(float, range(1, 65))), (2.0,) * 64, copy_us=1.0)
    timeline = build_timeline(schedule, times)
    assert schedule.tasks == 2 * 64 * 1024
    assert len(timeline.start_us) < schedule.tasks / 7
    # Steady state costs the slowest stage, 64 + 2, and one copy per step.
    assert timeline.total_us > 1024 * (64 + 2 + 1)
