"""A run that repeats its middle equals the one that is written out, slot by slot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ipu_runtime.plan.schedule.building import (
    Region,
    build_schedule,
    main_part,
    overlap_offsets,
    recomputation_allowed,
    region_of,
)
from ipu_runtime.plan.schedule.repeated import Repeated
from ipu_runtime.plan.schedule.schedule import (
    Action,
    Phase,
    Recomputation,
    Schedule,
    ScheduleKind,
    later_slot,
    later_step,
)
from ipu_runtime.plan.schedule.stage_clock import find_supersteps
from ipu_runtime.plan.schedule.timeline import (
    Clock,
    StageTimes,
    build_timeline,
    pipeline_time_us,
)

F, B, R = Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE
KINDS = [kind for kind in ScheduleKind if kind.on_ipu]
MAPPINGS = [(0,), (0, 1), (0, 1, 2), (0, 0), (0, 1, 0), (0, 1, 1, 0), (2, 0, 0, 1, 3)]
COUNTS = (1, 3, 8, 25, 31)
CASES = [
    (kind, mapping, training, mode, count)
    for kind, mapping, training, mode, count in product(
        KINDS, MAPPINGS, (True, False), Recomputation, COUNTS
    )
    if recomputation_allowed(kind, mode) and (training or mode is Recomputation.OFF)
]
Slots = list[list[Action]]


def written_out(
    kind: ScheduleKind,
    mapping: tuple[int, ...],
    training: bool,
    mode: Recomputation,
    count: int,
) -> tuple[Slots, list[list[int]]]:
    """Return slots and program steps, every micro-batch on its way by itself."""
    stages, offsets = len(mapping), overlap_offsets(kind, mapping, training)
    hops = stages * (2 if training else 1)
    parts: dict[tuple[int, bool], list[Action]] = defaultdict(list)
    for number in range(count):
        start = number // len(offsets) * hops + offsets[number % len(offsets)]
        tasks = [(start + stage, Action(stage, F, number)) for stage in range(stages)]
        for stage in range(stages) if training else ():
            back = start + 2 * stages - 1 - stage
            tasks.append((back, Action(stage, B, number)))
            if mode is Recomputation.THEN_BACKPROPAGATE and stage < stages - 1:
                tasks.append((back - 1, Action(stage, R, number)))
        for step, task in tasks:
            later = kind is ScheduleKind.GROUPED and task.phase is not B
            parts[step, later].append(task)
    order = [F, R, B]
    slots, steps = [], defaultdict(list)
    for at, (step, later) in enumerate(sorted(parts)):
        tasks_here = parts[step, later]
        slots.append(sorted(tasks_here, key=lambda t: (t.stage, order.index(t.phase))))
        steps[step].append(at)
    return slots, [steps[step] for step in sorted(steps)]


def durations(stages: int) -> StageTimes:
    """Return times that floating point adds up exactly in any order."""
    random = np.random.default_rng(stages)
    columns = (random.integers(0, 64, stages) / 8 for _ in range(3))
    return StageTimes(*(tuple(column.tolist()) for column in columns), copy_us=0.375)


def exact_time(schedule: Schedule, units: list[Slots], times: StageTimes) -> Fraction:
    """Add up the busiest IPU's time of every unit, and its copies."""
    total = Fraction(0)
    for unit in units:
        busy: dict[int, Fraction] = defaultdict(Fraction)
        for slot in unit:
            for stage, phase, _ in slot:
                column = {F: times.forward, B: times.backward, R: times.recompute}
                busy[schedule.device_mapping[stage]] += Fraction(column[phase][stage])
                merged = schedule.recomputation is Recomputation.WITH_BACKPROPAGATE
                if merged and phase is B and stage < schedule.stages - 1:
                    more = Fraction(times.recompute[stage])
                    busy[schedule.device_mapping[stage]] += more
        total += max(busy.values()) + Fraction(times.copy_us)
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_everything_equals_the_run_that_is_written_out(
    kind: ScheduleKind, mapping: tuple[int, ...]
) -> None:
    repeating = 0
    for case in CASES:
        if case[:2] != (kind, mapping):
            continue
        _, _, training, mode, count = case
        slots, steps = written_out(*case)
        schedule = build_schedule(
            kind,
            len(mapping),
            count,
            training=training,
            recomputation=mode,
            device_mapping=mapping,
        )
        repeating += schedule.slots.times > 1
        assert [list(slot) for slot in schedule.slots] == slots
        assert [list(schedule.slots[i]) for i in range(len(slots))] == slots
        assert [list(step) for step in schedule.program_steps] == steps
        assert schedule.tasks == sum(map(len, slots))
        _check_figures(schedule, slots, steps)
    assert repeating > 3


def _check_figures(schedule: Schedule, slots: Slots, steps: list[list[int]]) -> None:
    times, mapping = durations(schedule.stages), schedule.device_mapping
    devices = set(mapping)
    busy = sum(len({mapping[task.stage] for task in slot}) for slot in slots)
    cells = len(slots) * len(devices)
    assert schedule.bubble_fraction == 1.0 - busy / cells
    assert [region_of(at, main_part(schedule)) for at in range(len(slots))] == regions(
        schedule, slots
    )
    for clock in Clock:
        units = [[slot] for slot in slots]
        if clock is Clock.STEP:
            units = [[slots[at] for at in step] for step in steps]
        expected = float(exact_time(schedule, units, times))
        timeline = build_timeline(schedule, times, clock)
        assert timeline.total_us == expected
        assert pipeline_time_us(schedule, times, clock) == expected
        assert timeline.peak_live == alive(schedule, slots)
        told = [item for ipu in timeline.ipus for item in timeline.intervals(ipu)]
        long = build_timeline(_long(schedule), times, clock)
        assert told == [item for ipu in long.ipus for item in long.intervals(ipu)]
        if len(devices) == schedule.stages:
            beat = find_supersteps(
                schedule.kind,
                schedule.stages,
                schedule.micro_batches,
                schedule.recomputation,
                clock,
                schedule.training,
            )
            columns = (times.forward, times.backward, times.recompute)
            copies = np.array([times.copy_us])
            assert beat.times(*(np.array([c]) for c in columns), copies) == expected


def _long(schedule: Schedule) -> Schedule:
    """Return the same run without repetition."""
    return replace(
        schedule,
        slots=Repeated(tuple(schedule.slots), later_slot),
        program_steps=Repeated(tuple(schedule.program_steps), later_step),
    )


def regions(schedule: Schedule, slots: Slots) -> list[Region]:
    """Return where the first longest stretch of fully used slots lies."""
    if schedule.kind is ScheduleKind.SEQUENTIAL:
        return [Region.MAIN] * len(slots)
    mapping = schedule.device_mapping
    full = [
        {mapping[t.stage] for t in slot if t.phase is not R} == set(mapping)
        for slot in slots
    ]
    stretches = [
        (end - start, -start)
        for start in range(len(slots))
        for end in range(start + 1, len(slots) + 1)
        if all(full[start:end])
    ]
    length, start = max(stretches, default=(0, -(len(slots) // 2)))
    parts = [Region.RAMP_UP] * -start + [Region.MAIN] * length
    return parts + [Region.RAMP_DOWN] * (len(slots) - len(parts))


def alive(schedule: Schedule, slots: Slots) -> tuple[int, ...]:
    """Return the most micro-batches between their forward and their last pass."""
    most = []
    for stage in range(schedule.stages):
        places: dict[int, list[int]] = defaultdict(list)
        for at, slot in enumerate(slots):
            for task in slot:
                if task.stage == stage and task.phase is not R:
                    places[task.micro_batch].append(at)
        ends = [(min(found), max(found)) for found in places.values()]
        counts = [sum(a <= at <= b for a, b in ends) for at in range(len(slots))]
        most.append(max(counts))
    return tuple(most)


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_any_times_are_those_of_the_run_written_out(
    kind: ScheduleKind,
) -> None:
    random = np.random.default_rng(5)
    forward, backward = random.uniform(0.1, 90.0, (2, 3)).tolist()
    times = StageTimes(tuple(forward), tuple(backward), (0.0,) * 3, copy_us=0.1)
    case = (kind, (0, 1, 2), True, Recomputation.OFF, 1000)
    slots, steps = written_out(*case)
    schedule = build_schedule(kind, 3, 1000)
    units = [[slots[at] for at in step] for step in steps]
    expected = float(exact_time(schedule, units, times))
    # Only the last digits differ, because floating point rounds fewer sums.
    assert build_timeline(schedule, times).total_us == pytest.approx(
        expected, rel=1e-14
    )
    assert pipeline_time_us(schedule, times) == pytest.approx(expected, rel=1e-14)


def test_ten_million_micro_batches_take_no_more_than_a_few() -> None:
    schedule = build_schedule(ScheduleKind.GROUPED, 64, 10_000_000)
    assert len(schedule.slots) == 2 * (10_000_000 + 127) - 65 - 63
    assert len(schedule.slots.once) < 600
    assert schedule.slots[-1] == (Action(0, B, 9_999_999),)
    timeline = build_timeline(schedule, StageTimes((1.0,) * 64, (2.0,) * 64))
    assert timeline.total_us == 3.0 * 10_000_000 + 64 * 1.0 + 64 * 2.0 - 3.0
