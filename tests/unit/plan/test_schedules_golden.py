"""Schedules, timings and mappings against established facts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica
from ipu_runtime.plan.rules.request_checks import check_request
from ipu_runtime.plan.schedule.building import (
    build_schedule,
    main_part,
    overlap_length,
    overlap_offsets,
    region_of,
)
from ipu_runtime.plan.schedule.schedule import Phase
from ipu_runtime.plan.schedule.timeline import (
    Clock,
    StageTimes,
    Timeline,
    build_timeline,
    pipeline_time_us,
)

from .pipeline_facts import FACTS, KINDS, RECOMPUTATION, label

Entry = dict[str, Any]


def schedule_of(entry: Entry) -> Any:
    return build_schedule(
        KINDS[entry["schedule"]],
        entry["stages"],
        entry["gac"],
        training=entry.get("mode", "training") == "training",
        recomputation=RECOMPUTATION[entry.get("recompute", "none")],
        device_mapping=entry.get("device_mapping", ()),
    )


@pytest.mark.parametrize("entry", FACTS["cases"], ids=label)
def test_schedule_equals_the_established_one(entry: Entry) -> None:
    schedule = schedule_of(entry)
    slots = [
        [{"stage": a.stage, "phase": a.phase.value, "mb": a.micro_batch} for a in slot]
        for slot in schedule.slots
    ]
    assert slots == entry["slots"]
    assert [list(step) for step in schedule.program_steps] == entry["program_steps"]
    main = main_part(schedule)
    regions = [region_of(slot, main).value for slot in range(len(slots))]
    assert regions == entry["slot_region"]
    depths = [stash["fifo_depth"] for stash in entry["stash"]]
    assert list(schedule.fifo_depth) == depths


@pytest.mark.parametrize("entry", FACTS["cases"], ids=label)
def test_bubble_and_live_micro_batches_equal_the_established_ones(entry: Entry) -> None:
    ones = (1.0,) * entry["stages"]
    timeline = build_timeline(schedule_of(entry), StageTimes(ones, ones, ones))
    idle, cells = entry["totals"]["bubble_fraction"]
    assert timeline.schedule.bubble_fraction == pytest.approx(idle / cells)
    live = [stash["peak_live_microbatches"] for stash in entry["stash"]]
    assert list(timeline.peak_live) == live


@pytest.mark.parametrize("entry", FACTS["cases"], ids=label)
def test_overlap_equals_the_established_one(entry: Entry) -> None:
    length = overlap_length(
        KINDS[entry["schedule"]],
        entry["device_mapping"],
        entry["mode"] == "training",
    )
    assert length == entry["gac_must_be_multiple_of"]


@pytest.mark.parametrize("entry", FACTS["timing"], ids=label)
def test_both_clocks_equal_the_established_times(entry: Entry) -> None:
    schedule = schedule_of(entry)
    times = StageTimes(
        tuple(entry["f"]), tuple(entry["b"]), tuple(entry["r"]), entry["copy"]
    )
    for clock in Clock:
        timeline = build_timeline(schedule, times, clock)
        waiting, total = entry[f"time_bubble_{clock.value}_model"]
        assert timeline.total_us == entry[f"time_{clock.value}_model"]
        assert pipeline_time_us(schedule, times, clock) == timeline.total_us
        assert without_passes(timeline, times) == pytest.approx(waiting / total)


@pytest.mark.parametrize("entry", FACTS["mapped_timing"], ids=label)
def test_stages_on_one_ipu_take_turns(entry: Entry) -> None:
    times = StageTimes(tuple(entry["f"]), tuple(entry["b"]), copy_us=entry["copy"])
    timeline = build_timeline(schedule_of(entry), times)
    assert timeline.total_us == entry["time_step_model"]
    for ipu in timeline.ipus:
        intervals = list(timeline.intervals(ipu))
        for before, after in pairwise(intervals):
            assert before.end_us <= after.start_us


@pytest.mark.parametrize("entry", FACTS["mapping"], ids=label)
def test_mapping_overlaps_as_established(entry: Entry) -> None:
    kind, mapping = KINDS[entry["schedule"]], tuple(entry["device_mapping"])
    training = entry["mode"] == "training"
    assert list(overlap_offsets(kind, mapping, training)) == entry["offsets"]
    length = entry["gac_must_be_multiple_of"]
    assert overlap_length(kind, mapping, training) == length
    request = pipelined(len(mapping), kind, length, training, mapping)
    assert ipus_per_replica(request.pipeline) == entry["ipus_reserved_per_replica"]
    refused = [problem.exception for problem in check_request(request)]
    assert ("NotImplementedError" not in refused) == entry["allowed"]


@pytest.mark.parametrize("entry", FACTS["invalid_gac"], ids=label)
def test_wrong_count_is_refused_with_a_valid_suggestion(entry: Entry) -> None:
    kind, stages = KINDS[entry["schedule"]], entry["stages"]
    training = entry["mode"] == "training"
    refused = [
        problem
        for problem in check_request(pipelined(stages, kind, entry["gac"], training))
        if problem.exception == "FailedPreconditionError"
    ]
    assert len(refused) == 1
    suggestion = refused[0].suggestion
    assert isinstance(suggestion, int)
    assert suggestion > 0
    assert suggestion % entry["required_multiple"] == 0


@pytest.mark.parametrize("entry", FACTS["whatif"], ids=label)
def test_other_schedules_equal_the_established_ones(entry: Entry) -> None:
    chunks, devices = entry["chunks_per_device"], entry["devices"]
    stages = chunks * devices
    schedule = build_schedule(
        KINDS[entry["schedule"]],
        stages,
        entry["microbatches"],
        device_mapping=tuple(range(devices)) * chunks,
    )
    times = StageTimes(
        (entry["f"] / chunks,) * stages,
        (entry["b"] / chunks,) * stages,
        weight_gradient=(entry["w"] / chunks,) * stages if entry["w"] else (),
    )
    timeline = build_timeline(schedule, times)
    waiting, total = entry["bubble_fraction"]
    assert timeline.total_us == entry["total_time"]
    assert without_passes(timeline, times) == pytest.approx(waiting / total)
    assert list(timeline.peak_live_per_ipu) == entry["peak_live_per_device"]
    assert not schedule.kind.on_ipu


def without_passes(timeline: Timeline, times: StageTimes) -> float:
    """Return the share of the IPUs' time that is no forward or backward pass."""
    of_phase = {
        Phase.FORWARD: times.forward,
        Phase.BACKWARD: times.backward,
        Phase.WEIGHT_GRADIENT: times.weight_gradient,
    }
    passes = sum(
        of_phase[span.phase][span.stage]
        for ipu in timeline.ipus
        for span in timeline.intervals(ipu)
        if span.phase in of_phase
    )
    return 1.0 - passes / (len(timeline.ipus) * timeline.total_us)


def pipelined(
    stages: int,
    kind: Any,
    count: int,
    training: bool = True,
    mapping: tuple[int, ...] = (),
) -> PlanRequest:
    """Return a request for a chain of dense layers, one per stage."""
    layers = [Layer(LayerSpec("input", "Input", {"shape": [8]}), (), (8,))]
    for index in range(stages):
        spec = LayerSpec(f"dense_{index}", "Dense", {"units": 8}, (layers[-1].name,))
        layers.append(Layer(spec, ((8,),), (8,)))
    return PlanRequest(
        model=ModelSpec(tuple(layers), (layers[-1].name,)),
        batch_size=4,
        batches=240,
        ipus=4,
        training=training,
        steps_per_execution=240 if training else count,
        gradient_accumulation=count if training else 1,
        pipeline=PipelineRequest(
            tuple(range(stages)), schedule=kind, device_mapping=mapping
        ),
    )
