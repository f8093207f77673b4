"""One task of a timeline in words: how long it takes and what it had to wait for.

Copies over links are not waiting: they are told only where nothing was waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ipu_runtime.plan.quantities import microseconds
from ipu_runtime.plan.schedule.schedule import Phase
from ipu_runtime.plan.schedule.timeline import Interval, Timeline

_NOTHING_US = 0.05
"""Less is not worth a word."""
_AROUND = 2
"""Repetitions of a long run in which a wait has its cause."""


def task_label(timeline: Timeline, task: Interval) -> str:
    """Return a task as cells name it, `F10`; `2F10` where stages share an IPU."""
    shared = len(timeline.ipus) < timeline.schedule.stages
    stage = str(task.stage) if shared else ""
    return f"{stage}{task.phase.value}{task.micro_batch}"


def task_words(timeline: Timeline, ipu: int, task: Interval) -> str:
    """Say how long an IPU is busy with a task, and what it waited for before."""
    words = (
        f"{task.phase.value}{task.micro_batch} of stage {task.stage}: "
        f"{microseconds(task.end_us - task.start_us)} from "
        f"{microseconds(task.start_us)}"
    )
    idle = idle_before(timeline, ipu, task)
    if idle.waited_us >= _NOTHING_US:
        return f"{words}, waited {microseconds(idle.waited_us)} for {idle.cause}"
    if idle.copies_us >= _NOTHING_US:
        return f"{words}, after {microseconds(idle.copies_us)} of copies"
    return words


class Idle(NamedTuple):
    """Why an IPU computed nothing before a task."""

    waited_us: float
    """For other IPUs."""
    copies_us: float
    """Over links, which take the time of all IPUs."""
    cause: str
    """The task that was waited for last, and where it ran."""


def idle_before(timeline: Timeline, ipu: int, task: Interval) -> Idle:
    """Share out the time since an IPU's last task to waiting and copies."""
    ends = [other.end_us for other in _near(timeline, ipu, task) if other != task]
    before = [end for end in ends if end <= task.start_us + _NOTHING_US]
    since = max(before, default=0.0)
    others = [
        (max(other.start_us, since), other.end_us, at, other)
        for at in timeline.ipus
        if at != ipu
        for other in _near(timeline, at, task)
        if since + _NOTHING_US < other.end_us <= task.start_us + _NOTHING_US
    ]
    if not timeline.schedule.kind.on_ipu:
        # Without a common clock a task waits for what it needs, and nothing else.
        others = [(since, *item[1:]) for item in others if _feeds(item[3], task)]
    if not others:
        return Idle(0.0, task.start_us - since, "")
    # While one of the others computes it is waited for; copies are between.
    waited, until = 0.0, since
    for begin, end, _, _ in sorted(others):
        waited += max(end - max(begin, until), 0.0)
        until = max(until, end)
    _, _, at, slowest = max(others, key=lambda item: item[1])
    cause = f"{task_label(timeline, slowest)} of IPU{at}"
    return Idle(waited, task.start_us - since - waited, cause)


def _near(timeline: Timeline, ipu: int, task: Interval) -> Iterator[Interval]:
    """Yield the tasks of an IPU, of a long run only those around a task."""
    slots = timeline.schedule.slots
    here = (task.slot - slots.first) // slots.length if slots.length else 0
    here = min(max(here, 0), slots.times - 1)
    around = range(max(here - _AROUND, 0), min(here + _AROUND + 1, slots.times))
    return timeline.intervals(ipu, around)


def _feeds(other: Interval, task: Interval) -> bool:
    if other.micro_batch != task.micro_batch or other.phase is not task.phase:
        return False
    source = task.stage - 1 if task.phase is Phase.FORWARD else task.stage + 1
    return other.stage == source
