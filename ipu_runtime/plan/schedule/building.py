"""The IPU's pipeline schedules: Grouped, Interleaved and Sequential.

All three follow one rule. A micro-batch visits the hops of a path: the stages in order
and, for training, back again. It takes one program step per hop. What differs is when
micro-batches start: every step, whenever no IPU would be needed twice, or after the
one before has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.schedule.repeated import Repeated
from ipu_runtime.plan.schedule.schedule import (
    Action,
    Phase,
    Recomputation,
    Schedule,
    ScheduleKind,
    Slot,
    later_slot,
    later_step,
)
from ipu_runtime.plan.schedule.whatif import build_whatif

Ints = npt.NDArray[np.int64]

PHASES = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD, Phase.WEIGHT_GRADIENT)
"""Order of one stage's actions inside a slot, where a slot has several."""

_FIFO_FACTOR = {
    ScheduleKind.GROUPED: 2,
    ScheduleKind.INTERLEAVED: 1,
    ScheduleKind.SEQUENTIAL: 0,
}
_NOT_TOGETHER = {
    (ScheduleKind.SEQUENTIAL, Recomputation.THEN_BACKPROPAGATE),
    (ScheduleKind.INTERLEAVED, Recomputation.WITH_BACKPROPAGATE),
}


class Region(Enum):
    """Part of a pipeline run."""

    RAMP_UP = "ramp_up"
    MAIN = "main"
    RAMP_DOWN = "ramp_down"


class SteadyPart(NamedTuple):
    """The program steps that a long run repeats, each time with later micro-batches."""

    shortest: int
    """Micro-batches of the run that has these steps once and is otherwise the same."""
    first: int = 0
    steps: int = 0
    micro_batches: int = 0
    """That start while these steps run once."""
    times: int = 1


def build_schedule(
    kind: ScheduleKind,
    stages: int,
    micro_batches: int,
    *,
    training: bool = True,
    recomputation: Recomputation = Recomputation.OFF,
    device_mapping: Sequence[int] = (),
) -> Schedule:
    """Return one pipeline run; the count rule of the hardware is not enforced here."""
    mapping = tuple(device_mapping) or default_mapping(kind, stages)
    if stages < 1 or micro_batches < 1:
        raise ValueError("A schedule needs at least one stage and one micro-batch.")
    if len(mapping) != stages:
        raise ValueError(f"{len(mapping)} devices are mapped to {stages} stages.")
    if not kind.on_ipu:
        return build_whatif(kind, stages, micro_batches, mapping)
    mode = recomputation if training else Recomputation.OFF
    if not recomputation_allowed(kind, mode):
        raise ValueError(f"{kind.value} has no {mode.value}.")
    steady = steady_part(kind, micro_batches, mapping, training)
    once = _place_tasks(kind, stages, steady.shortest, mapping, training, mode)
    slots, steps = _cut_into_slots(kind, *once)
    # The slots of the steps that repeat, which are whole in the shortest run.
    again = [*chain.from_iterable(steps[steady.first : steady.first + steady.steps])]
    return Schedule(
        kind=kind,
        training=training,
        stages=stages,
        micro_batches=micro_batches,
        recomputation=mode,
        slots=Repeated(
            slots,
            later_slot,
            stride=steady.micro_batches,
            first=again[0] if again else 0,
            length=len(again),
            times=steady.times,
        ),
        program_steps=Repeated(
            steps,
            later_step,
            stride=len(again),
            first=steady.first,
            length=steady.steps,
            times=steady.times,
        ),
        fifo_depth=fifo_depths(kind, stages, training),
        device_mapping=mapping,
    )


def default_mapping(kind: ScheduleKind, stages: int) -> tuple[int, ...]:
    """Return one IPU per stage; Megatron's interleaving puts two stages on each."""
    if kind is ScheduleKind.INTERLEAVED_ONE_F_ONE_B and stages % 2 == 0:
        return tuple(range(stages // 2)) * 2
    return tuple(range(stages))


def overlap_offsets(
    kind: ScheduleKind, device_mapping: Sequence[int], training: bool
) -> tuple[int, ...]:
    """Return the steps at which micro-batches start within one turn of the path."""
    hops = len(device_mapping) * (2 if training else 1)
    if kind is ScheduleKind.GROUPED:
        return tuple(range(hops))
    if kind is ScheduleKind.SEQUENTIAL:
        return (0,)
    if len(set(device_mapping)) == len(device_mapping):
        return tuple(range(0, hops, 2 if training else 1))
    path = np.asarray(device_mapping, dtype=np.int64)
    if training:
        path = np.concatenate([path, path[::-1]])
    offsets, rotations = [0], [path]
    for offset in range(1, len(path)):
        rotation = np.roll(path, -offset)
        if all(bool(np.all(rotation != other)) for other in rotations):
            offsets.append(offset)
            rotations.append(rotation)
    return tuple(offsets)


def overlap_length(
    kind: ScheduleKind, device_mapping: Sequence[int], training: bool
) -> int:
    """Return the number of which the count of micro-batches must be a multiple."""
    return len(overlap_offsets(kind, device_mapping, training))


def fifo_depths(kind: ScheduleKind, stages: int, training: bool) -> tuple[int, ...]:
    """Return how many micro-batches wait between forward and backward, per stage."""
    factor = _FIFO_FACTOR[kind] if training else 0
    return tuple(factor * (stages - 1 - stage) for stage in range(stages))


def recomputation_allowed(kind: ScheduleKind, mode: Recomputation) -> bool:
    """Return whether the schedule knows the recomputation mode."""
    return (kind, mode) not in _NOT_TOGETHER


def start_steps(
    kind: ScheduleKind,
    micro_batches: int,
    device_mapping: Sequence[int],
    training: bool,
) -> Ints:
    """Return the program step in which every micro-batch enters stage 0."""
    offsets = np.asarray(overlap_offsets(kind, device_mapping, training))
    hops = len(device_mapping) * (2 if training else 1)
    numbers = np.arange(micro_batches)
    starts: Ints = numbers // len(offsets) * hops + offsets[numbers % len(offsets)]
    return starts


def steady_part(
    kind: ScheduleKind,
    micro_batches: int,
    device_mapping: Sequence[int],
    training: bool,
) -> SteadyPart:
    """Return what repeats in a run; nothing does in a short one."""
    offsets = overlap_offsets(kind, device_mapping, training)
    hops = len(device_mapping) * (2 if training else 1)
    steps, started = hops, len(offsets)
    if offsets == tuple(range(0, hops, hops // started)):
        steps, started = hops // started, 1
    # From step `hops` on, all micro-batches that could be on their way are there, up
    # to the start of the first that is missing.
    shortest = (hops // steps + 1) * started + micro_batches % started
    if micro_batches <= shortest:
        return SteadyPart(micro_batches)
    times = 1 + (micro_batches - shortest) // started
    return SteadyPart(shortest, hops, steps, started, times)


def main_part(schedule: Schedule) -> range:
    """Return the slots between the ramps.

    They are the longest run of slots in which all IPUs run a forward or a backward
    pass; a Sequential run has no ramps.
    """
    slots, mapping = schedule.slots, schedule.device_mapping
    if schedule.kind is ScheduleKind.SEQUENTIAL:
        return range(len(slots))
    used, recompute = len(set(mapping)), Phase.RECOMPUTE
    # Twice what repeats, because a run may go from one repetition to the next.
    short = replace(slots, times=min(slots.times, 2))
    added = len(slots) - len(short)
    best_start, best_length, start = len(short), 0, 0
    for index, slot in enumerate(short):
        busy = {mapping[task.stage] for task in slot if task.phase is not recompute}
        if len(busy) < used:
            start = index + 1
        elif index + 1 - start > best_length:
            best_start, best_length = start, index + 1 - start
    if not best_length:
        return range(len(slots) // 2, len(slots) // 2)
    end, last = best_start + best_length, slots.first + slots.length
    best_start += added if best_start >= last else 0
    end += added if end >= last + (short.times - 1) * slots.length else 0
    return range(best_start, end)


def region_of(slot: int, main: range) -> Region:
    """Return the part of the run that a slot belongs to."""
    if slot in main:
        return Region.MAIN
    return Region.RAMP_UP if slot < main.start else Region.RAMP_DOWN


def _place_tasks(
    kind: ScheduleKind,
    stages: int,
    micro_batches: int,
    mapping: Sequence[int],
    training: bool,
    recomputation: Recomputation,
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return step, stage, phase (index into PHASES) and micro-batch of every task."""
    starts = start_steps(kind, micro_batches, mapping, training)
    stage = np.arange(stages)
    parts = [(starts[:, None] + stage, stage, 0)]
    if training:
        parts.append((starts[:, None] + 2 * stages - 1 - stage, stage, 2))
        if recomputation is Recomputation.THEN_BACKPROPAGATE:
            # The last stage's backward follows at once, so it keeps its activations.
            earlier = stage[:-1]
            parts.append((starts[:, None] + 2 * stages - 2 - earlier, earlier, 1))
    numbers = np.arange(micro_batches)[:, None]
    return (
        np.concatenate([step.ravel() for step, _, _ in parts]),
        np.concatenate([np.broadcast_to(s, t.shape).ravel() for t, s, _ in parts]),
        np.concatenate([np.full(step.size, phase) for step, _, phase in parts]),
        np.concatenate(
            [np.broadcast_to(numbers, step.shape).ravel() for step, _, _ in parts]
        ),
    )


def _cut_into_slots(
    kind: ScheduleKind, step: Ints, stage: Ints, phase: Ints, micro_batch: Ints
) -> tuple[tuple[Slot, ...], tuple[tuple[int, ...], ...]]:
    """Return the slots and which of them each program step holds.

    A Grouped step runs its backward passes first and then, as a slot of its own, its
    forward passes; for the others a step is a slot.
    """
    key = 2 * step + (phase != 2) if kind is ScheduleKind.GROUPED else 2 * step
    order = np.lexsort((phase, stage, key))
    key = key[order]
    firsts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
    bounds = [*firsts.tolist(), len(key)]
    names = list(map(PHASES.__getitem__, phase[order].tolist()))
    columns = (stage[order].tolist(), names, micro_batch[order].tolist())
    actions = list(map(Action, *columns))
    slots = tuple(tuple(actions[start:end]) for start, end in pairwise(bounds))
    slot_step = key[firsts] // 2
    cuts = np.flatnonzero(np.r_[True, slot_step[1:] != slot_step[:-1]]).tolist()
    ends = [*cuts[1:], len(slot_step)]
    steps = tuple(tuple(range(a, b)) for a, b in zip(cuts, ends, strict=True))
    return slots, steps
