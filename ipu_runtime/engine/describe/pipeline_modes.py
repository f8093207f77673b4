"""How pipelines are asked for: the API's schedules and recomputation modes."""

from __future__ import annotations

from enum import Enum, IntEnum

from ipu_runtime.plan.schedule.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)


class PipelineSchedule(IntEnum):
    """In which order the stages of a pipeline work."""

    Grouped = 0
    Interleaved = 1
    Sequential = 2

    @property
    def kind(self) -> ScheduleKind:
        """The same schedule as the plan names it."""
        return ScheduleKind(self.name)


class RecomputationMode(Enum):
    """How activations are computed again when `allow_recompute` is set."""

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


def resolve_recomputation(
    allow_recompute: bool, mode: RecomputationMode | None, schedule: PipelineSchedule
) -> Recomputation:
    """Return what a pipeline really does; the device raises for the other pairs."""
    if not allow_recompute:
        return Recomputation.OFF
    if mode is None or mode is RecomputationMode.Auto:
        return automatic_recomputation(schedule.kind)
    return Recomputation(mode.name)
