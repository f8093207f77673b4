"""Event-driven time of schedules without a common beat."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.schedule.schedule import Schedule
from ipu_runtime.plan.schedule.tasks import BACKWARD, FORWARD, WEIGHT_GRADIENT, Tasks

Floats = npt.NDArray[np.float64]


def run_events(
    schedule: Schedule, tasks: Tasks, durations: Floats, copy_us: float
) -> tuple[Floats, float]:
    """Return the start of every task and the end of the last.

    Each device keeps its own order, and starts a task when the device is free and the
    task's input has arrived; an input from another device takes the copy's time.
    """
    last = schedule.stages - 1
    mapping = schedule.device_mapping
    ends: dict[tuple[int, int, int], float] = {}
    free = dict.fromkeys(mapping, 0.0)
    starts = np.empty(len(durations))
    columns = (tasks.stage, tasks.phase, tasks.micro_batch, durations)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for index, (stage, phase, number, duration) in enumerate(rows):
        device = mapping[stage]
        start = free[device]
        needed = _needed(stage, phase, last)
        if needed:
            source, source_phase = needed
            arrival = ends[source, source_phase, number]
            if mapping[source] != device:
                arrival += copy_us
            start = max(start, arrival)
        starts[index] = start
        ends[stage, phase, number] = free[device] = start + duration
    return starts, max(free.values())


def _needed(stage: int, phase: int, last: int) -> tuple[int, int] | None:
    """Return stage and phase of the task whose result this one waits for."""
    if phase == FORWARD:
        return (stage - 1, FORWARD) if stage else None
    if phase == WEIGHT_GRADIENT:
        return stage, BACKWARD
    return (stage + 1, BACKWARD) if stage < last else (stage, FORWARD)
