"""Schedules as sequences of actions: drawn, timed and executed from one object."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from ipu_runtime.plan.schedule.repeated import Repeated


class Phase(Enum):
    """What a stage does with a micro-batch."""

    FORWARD = "F"
    BACKWARD = "B"
    RECOMPUTE = "R"
    WEIGHT_GRADIENT = "W"
    """Only in what-if schedules that split the backward pass."""


class ScheduleKind(Enum):
    """The schedules of the IPU, and the what-if ones that it does not have."""

    GROUPED = "Grouped"
    INTERLEAVED = "Interleaved"
    SEQUENTIAL = "Sequential"
    GPIPE = "GPipe"
    ONE_F_ONE_B = "1F1B"
    INTERLEAVED_ONE_F_ONE_B = "Interleaved 1F1B"
    ZERO_BUBBLE_H1 = "ZB-H1"

    @property
    def on_ipu(self) -> bool:
        """Whether the IPU offers this schedule."""
        return self in (
            ScheduleKind.GROUPED,
            ScheduleKind.INTERLEAVED,
            ScheduleKind.SEQUENTIAL,
        )


class Recomputation(Enum):
    """Whether and how forward activations are computed again."""

    OFF = "off"
    THEN_BACKPROPAGATE = "RecomputeThenBackpropagate"
    WITH_BACKPROPAGATE = "RecomputeAndBackpropagateInterleaved"


def automatic_recomputation(kind: ScheduleKind) -> Recomputation:
    """Return the mode that `Auto` stands for under a schedule."""
    if kind is ScheduleKind.SEQUENTIAL:
        return Recomputation.WITH_BACKPROPAGATE
    return Recomputation.THEN_BACKPROPAGATE


class Action(NamedTuple):
    """One task: a stage does something with a micro-batch."""

    stage: int
    phase: Phase
    micro_batch: int


def needed_action(action: Action, stages: int) -> Action | None:
    """Return the task whose result one waits for; None if it takes the data's."""
    stage, phase, number = action
    if phase is Phase.FORWARD:
        return Action(stage - 1, phase, number) if stage else None
    if phase is Phase.WEIGHT_GRADIENT:
        return Action(stage, Phase.BACKWARD, number)
    if stage < stages - 1:
        return Action(stage + 1, Phase.BACKWARD, number)
    return Action(stage, Phase.FORWARD, number)


Slot = tuple[Action, ...]


def later_slot(slot: Slot, micro_batches: int) -> Slot:
    """Return what a slot does, that many micro-batches later."""
    return tuple(Action(s, phase, m + micro_batches) for s, phase, m in slot)


def later_step(step: tuple[int, ...], slots: int) -> tuple[int, ...]:
    """Return a program step that many slots later."""
    return tuple(slot + slots for slot in step)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One pipeline run: what every IPU does, slot by slot, until the weight update.

    All micro-batches take the same way, so the middle of a long run repeats.
    """

    kind: ScheduleKind
    training: bool
    stages: int
    micro_batches: int
    recomputation: Recomputation
    slots: Repeated[Slot]
    """Actions of each slot; order inside a slot carries no meaning but R after F."""
    program_steps: Repeated[tuple[int, ...]]
    """Slot indices that run between two synchronisations of all IPUs."""
    fifo_depth: tuple[int, ...]
    """Micro-batches that wait between forward and backward, per stage."""
    device_mapping: tuple[int, ...]
    """IPU of every stage."""

    @property
    def bubble_fraction(self) -> float:
        """Share of cells (IPU times slot) in which nothing runs."""
        mapping = self.device_mapping
        busy = sum(
            len({mapping[task.stage] for task in slot}) * count
            for slot, count in zip(
                self.slots.once, self.slots.counts.tolist(), strict=True
            )
        )
        return 1.0 - busy / (len(self.slots) * len(set(mapping)))

    @property
    def tasks(self) -> int:
        """How many tasks the run has."""
        sizes = np.fromiter(map(len, self.slots.once), dtype=np.int64)
        return int(sizes @ self.slots.counts)

    @property
    def ipus(self) -> int:
        """IPUs that have a stage or lie below one that has."""
        return max(self.device_mapping) + 1
