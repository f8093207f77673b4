"""When everything of a schedule happens, and what stays alive.

Two clocks: IPUs wait for each other after every slot, as the published figures draw it,
or after every program step, as the compiler emits it. Schedules that the IPU does not
have are timed event by event, each task as soon as what it needs is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.schedule.building import PHASES
from ipu_runtime.plan.schedule.schedule import Phase, Recomputation, Schedule
from ipu_runtime.plan.schedule.whatif import run_events

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Counts = tuple[tuple[int, ...], tuple[int, ...]]

_CODE = {phase: code for code, phase in enumerate(PHASES)}
FORWARD, RECOMPUTE, BACKWARD, WEIGHT_GRADIENT = range(4)


class Clock(Enum):
    """When the IPUs of a pipeline wait for each other."""

    STEP = "step"
    """After every program step: what the compiler emits."""
    SLOT = "slot"
    """After every slot: what the figures show; never faster."""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Time of every stage on one micro-batch, in microseconds."""

    forward: tuple[float, ...]
    backward: tuple[float, ...] = ()
    recompute: tuple[float, ...] = ()
    copy_us: float = 0.0
    """Copies between IPUs; they run once per step (or slot), in the ramps too."""
    weight_gradient: tuple[float, ...] = ()
    """Only for schedules that split the backward pass."""


class Interval(NamedTuple):
    """One task on one IPU."""

    start_us: float
    end_us: float
    stage: int
    phase: Phase
    micro_batch: int
    slot: int


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a schedule as columns, slot by slot, what repeats once."""

    stage: Ints
    phase: Ints
    """Index into PHASES."""
    micro_batch: Ints
    slot: Ints
    ipu: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """A timed schedule."""

    schedule: Schedule
    clock: Clock
    total_us: float
    repeats_us: float
    """Time of what repeats, once."""
    tasks: Tasks
    start_us: Floats
    duration_us: Floats
    peak_live: tuple[int, ...]
    """Most micro-batches alive at once, per stage."""
    peak_live_per_ipu: tuple[int, ...]
    """The same for all stages of an IPU together, in the order of `ipus`."""

    @property
    def ipus(self) -> tuple[int, ...]:
        """IPUs that have a stage."""
        return tuple(sorted(set(self.schedule.device_mapping)))

    def intervals(
        self, ipu: int, repetitions: Sequence[int] | None = None
    ) -> Iterator[Interval]:
        """Yield the tasks of one IPU in time, with all or some of its repetitions."""
        slots = self.schedule.slots
        rows = self._once(ipu)
        again = range(slots.first, slots.first + slots.length)
        body = [row for row in rows if row.slot in again]
        yield from (row for row in rows if row.slot < again.start)
        for number in range(slots.times) if repetitions is None else repetitions:
            yield from (self._later(row, number) for row in body)
        last = slots.times - 1
        yield from (self._later(row, last) for row in rows if row.slot >= again.stop)

    def _later(self, row: Interval, times: int) -> Interval:
        """Return the same task some repetitions later."""
        if not times:
            return row
        start, end, stage, phase, micro_batch, slot = row
        slots, added = self.schedule.slots, times * self.repeats_us
        micro_batch += times * slots.stride
        slot += times * slots.length
        return Interval(start + added, end + added, stage, phase, micro_batch, slot)

    def _once(self, ipu: int) -> list[Interval]:
        chosen = np.flatnonzero(self.tasks.ipu == ipu)
        ends = self.start_us[chosen] + self.duration_us[chosen]
        chosen = chosen[np.lexsort((ends, self.start_us[chosen]))]
        starts = self.start_us[chosen]
        return [
            Interval(start, end, stage, PHASES[phase], micro_batch, slot)
            for start, end, stage, phase, micro_batch, slot in zip(
                starts.tolist(),
                (starts + self.duration_us[chosen]).tolist(),
                self.tasks.stage[chosen].tolist(),
                self.tasks.phase[chosen].tolist(),
                self.tasks.micro_batch[chosen].tolist(),
                self.tasks.slot[chosen].tolist(),
                strict=True,
            )
        ]


def build_timeline(
    schedule: Schedule, times: StageTimes, clock: Clock = Clock.STEP
) -> Timeline:
    """Time every task of a schedule."""
    tasks = read_tasks(schedule)
    durations = task_durations(schedule, tasks, times)
    if schedule.kind.on_ipu:
        timed = _lockstep(schedule, tasks, durations, times.copy_us, clock)
    else:
        timed = *run_events(schedule, durations, times.copy_us), 0.0
    starts, total, repeats_us = timed
    live_per_stage, live_per_ipu = peak_live(schedule, tasks, starts)
    return Timeline(
        schedule=schedule,
        clock=clock,
        total_us=total,
        repeats_us=repeats_us,
        tasks=tasks,
        start_us=starts,
        duration_us=durations,
        peak_live=live_per_stage,
        peak_live_per_ipu=live_per_ipu,
    )


def pipeline_time_us(
    schedule: Schedule, times: StageTimes, clock: Clock = Clock.STEP
) -> float:
    """Return the time of one run without its weight update."""
    tasks = read_tasks(schedule)
    durations = task_durations(schedule, tasks, times)
    if not schedule.kind.on_ipu:
        return run_events(schedule, durations, times.copy_us)[1]
    units = _units(schedule, tasks, clock)
    lengths = _unit_times(units, tasks, durations) + times.copy_us
    again = (schedule.slots.times - 1) * _repeated_us(schedule, lengths, clock)
    return float(lengths.sum()) + again


def task_durations(schedule: Schedule, tasks: Tasks, times: StageTimes) -> Floats:
    """Return the time of every task."""
    table = np.zeros((len(PHASES), schedule.stages))
    table[FORWARD] = times.forward
    if times.backward:
        table[BACKWARD] = times.backward
    if times.recompute:
        table[RECOMPUTE] = times.recompute
        if schedule.recomputation is Recomputation.WITH_BACKPROPAGATE:
            # Merged into the backward pass; the last stage keeps its activations.
            table[BACKWARD, :-1] += times.recompute[:-1]
    if times.weight_gradient:
        table[WEIGHT_GRADIENT] = times.weight_gradient
    durations: Floats = table[tasks.phase, tasks.stage]
    return durations


def _units(schedule: Schedule, tasks: Tasks, clock: Clock) -> Ints:
    """Return the index of the synchronised unit (step or slot) of every task."""
    if clock is Clock.SLOT:
        return tasks.slot
    sizes = np.fromiter(map(len, schedule.program_steps.once), dtype=np.int64)
    step_of_slot: Ints = np.repeat(np.arange(len(sizes)), sizes)
    return step_of_slot[tasks.slot]


def _unit_times(units: Ints, tasks: Tasks, durations: Floats) -> Floats:
    """Return the busiest IPU's time of every unit."""
    key = units * (int(tasks.ipu.max()) + 1) + tasks.ipu
    order = np.argsort(key, kind="stable")
    firsts = _group_starts(key[order])
    busy = np.add.reduceat(durations[order], firsts)
    longest: Floats = np.maximum.reduceat(busy, _group_starts(units[order][firsts]))
    return longest


def _group_starts(sorted_keys: Ints) -> Ints:
    return np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])


def _lockstep(
    schedule: Schedule, tasks: Tasks, durations: Floats, copy_us: float, clock: Clock
) -> tuple[Floats, float, float]:
    """Return the start of every task, the end of the last, and what repeats takes."""
    units = _units(schedule, tasks, clock)
    lengths = _unit_times(units, tasks, durations) + copy_us
    ends = np.cumsum(lengths)
    # On one IPU: backward passes by rising stage, forward passes by falling stage,
    # and recomputation last, as the compiler emits them.
    forward_last = np.where(tasks.phase == BACKWARD, tasks.stage, -tasks.stage)
    rank = np.choose(tasks.phase, [1, 2, 0, 3])
    order = np.lexsort((forward_last, rank, tasks.ipu, units))
    group = units[order] * (int(tasks.ipu.max()) + 1) + tasks.ipu[order]
    before = np.cumsum(durations[order]) - durations[order]
    firsts = _group_starts(group)
    sizes = np.diff(np.r_[firsts, len(group)])
    within = before - np.repeat(before[firsts], sizes)
    starts = np.empty(len(group))
    starts[order] = (ends - lengths)[units[order]] + within
    repeats_us = _repeated_us(schedule, lengths, clock)
    total = float(ends[-1]) + (schedule.slots.times - 1) * repeats_us
    return starts, total, repeats_us


def _repeated_us(schedule: Schedule, lengths: Floats, clock: Clock) -> float:
    """Return the time of what repeats, once."""
    units = schedule.slots if clock is Clock.SLOT else schedule.program_steps
    return float(lengths[units.first : units.first + units.length].sum())


def read_tasks(schedule: Schedule) -> Tasks:
    """Return the tasks of a schedule as columns."""
    slots = schedule.slots.once
    flat = list(chain.from_iterable(slots))
    stages, phases, numbers = zip(*flat, strict=True)
    stage = np.array(stages, dtype=np.int64)
    counts = np.fromiter(map(len, slots), dtype=np.int64)
    return Tasks(
        stage=stage,
        phase=np.fromiter(map(_CODE.__getitem__, phases), dtype=np.int64),
        micro_batch=np.array(numbers, dtype=np.int64),
        slot=np.repeat(np.arange(len(counts)), counts),
        ipu=np.array(schedule.device_mapping, dtype=np.int64)[stage],
    )


def peak_live(schedule: Schedule, tasks: Tasks, when: Floats) -> Counts:
    """Return the most micro-batches alive at once, by stage and by IPU.

    A micro-batch lives from its forward pass to the last task that needs it.
    """
    # What repeats keeps as many alive each time.
    size = (schedule.stages, int(tasks.micro_batch.max()) + 1)
    order = tasks.slot if schedule.kind.on_ipu else when
    born, gone = np.zeros(size), np.zeros(size)
    for phase in (FORWARD, BACKWARD, WEIGHT_GRADIENT):
        chosen = tasks.phase == phase
        place = tasks.stage[chosen], tasks.micro_batch[chosen]
        gone[place] = order[chosen]
        if phase == FORWARD:
            born[place] = order[chosen]
    mapping = np.array(schedule.device_mapping)
    # Not np.unique: it loads masked arrays, which takes longer than a plan.
    ipus = sorted(set(schedule.device_mapping))
    return (
        tuple(_most_alive(born[s], gone[s]) for s in range(schedule.stages)),
        tuple(_most_alive(born[mapping == i], gone[mapping == i]) for i in ipus),
    )


def _most_alive(born: Floats, gone: Floats) -> int:
    births = np.sort(born, axis=None)
    ended = np.searchsorted(np.sort(gone, axis=None), births, side="left")
    return int((np.arange(1, len(births) + 1) - ended).max())
