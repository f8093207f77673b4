"""One task of a timeline in words: how long it takes and what it had to wait for."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.schedule.schedule import Phase
from ipu_runtime.plan.schedule.timeline import Interval, Timeline
from ipu_runtime.reports.quantities import microseconds

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
    ends = [other.end_us for other in _near(timeline, ipu, task) if other != task]
    before = [end for end in ends if end <= task.start_us + _NOTHING_US]
    since = max(before, default=0.0)
    waited = task.start_us - since
    if waited < _NOTHING_US:
        return words
    cause = _cause(timeline, ipu, task, since)
    return f"{words}, waited {microseconds(waited)} for {cause}"


def _near(timeline: Timeline, ipu: int, task: Interval) -> Iterator[Interval]:
    """Yield the tasks of an IPU, of a long run only those around a task."""
    slots = timeline.schedule.slots
    here = (task.slot - slots.first) // slots.length if slots.length else 0
    here = min(max(here, 0), slots.times - 1)
    around = range(max(here - _AROUND, 0), min(here + _AROUND + 1, slots.times))
    return timeline.intervals(ipu, around)


def _cause(timeline: Timeline, ipu: int, task: Interval, since: float) -> str:
    """Name what a task waited for: on the IPU all wait for the slowest."""
    others = [
        (other.end_us, at, other)
        for at in timeline.ipus
        if at != ipu
        for other in _near(timeline, at, task)
        if since + _NOTHING_US < other.end_us <= task.start_us + _NOTHING_US
    ]
    if not timeline.schedule.kind.on_ipu:
        # Without a common clock a task waits for what it needs, and nothing else.
        others = [item for item in others if _feeds(item[2], task)]
    if not others:
        return "copies of IPUs"
    _, at, slowest = max(others, key=lambda item: item[0])
    return f"{task_label(timeline, slowest)} of IPU{at}"


def _feeds(other: Interval, task: Interval) -> bool:
    if other.micro_batch != task.micro_batch or other.phase is not task.phase:
        return False
    source = task.stage - 1 if task.phase is Phase.FORWARD else task.stage + 1
    return other.stage == source
