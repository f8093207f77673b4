"""The timeline of a pipeline as a part of a document."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.quantities import microseconds
from ipu_runtime.plan.schedule.building import Region, main_part, region_of
from ipu_runtime.plan.schedule.repeated import Repeated
from ipu_runtime.plan.schedule.schedule import Action, Phase
from ipu_runtime.plan.schedule.timeline import Interval
from ipu_runtime.plan.schedule.timeline import Timeline as TimedSchedule
from ipu_runtime.reports.document import Lane, Task, Timeline

_PHASES = {
    Phase.FORWARD: "forward",
    Phase.BACKWARD: "backward",
    Phase.RECOMPUTE: "recomputation",
    Phase.WEIGHT_GRADIENT: "weight gradient",
}
_REGIONS = {
    Region.RAMP_UP: ("ramp up", "up"),
    Region.MAIN: ("main",),
    Region.RAMP_DOWN: ("ramp down", "down"),
}
_MOST_TASKS = 4000
"""Of all IPUs, at both ends of a run together."""


def timeline_part(
    timeline: TimedSchedule, replicas: int = 1, ipus_per_replica: int = 0
) -> Timeline:
    """Return both ends of a timed schedule, the letters of its tasks and its parts.

    With several replicas the lanes are those of each, and name all their IPUs.
    """
    schedule = timeline.schedule
    per_replica = ipus_per_replica or schedule.ipus
    shown = both_ends(schedule.slots, _MOST_TASKS // max(1, 2 * len(timeline.ipus)))
    lanes = tuple(
        Lane(
            _lane_name(ipu, replicas, per_replica),
            tuple(
                _task(timeline, ipu, interval)
                for interval in timeline.intervals(ipu, shown)
            ),
        )
        for ipu in timeline.ipus
    )
    main = main_part(schedule)
    regions = [(0, _REGIONS[region_of(0, main)])] if schedule.slots else []
    regions += [
        (slot, _REGIONS[region_of(slot, main)])
        for slot in (main.start, main.stop)
        if 0 < slot < len(schedule.slots)
    ]
    found = {action.phase for slot in schedule.slots.once for action in slot}
    return Timeline(
        lanes,
        timeline.total_us,
        len(schedule.slots),
        tuple(regions),
        tuple((phase.value, name) for phase, name in _PHASES.items() if phase in found),
        "U weight update" if schedule.training else "",
        microseconds,
        f"One pipeline run of {schedule.micro_batches} micro-batches, "
        f"{schedule.kind.value}: {microseconds(timeline.total_us)}.",
    )


def both_ends(slots: Repeated[tuple[Action, ...]], most: int) -> Sequence[int]:
    """Return the repetitions at both ends of a long run: what is between is alike."""
    every = range(slots.times)
    ends = max(1, most // max(slots.length, 1))
    return [*every[:ends], *every[-ends:]] if 2 * ends < slots.times else every


def task_label(timeline: TimedSchedule, task: Interval) -> str:
    """Return a task as cells name it, `F10`; `2F10` where stages share an IPU."""
    shared = len(timeline.ipus) < timeline.schedule.stages
    stage = str(task.stage) if shared else ""
    return f"{stage}{task.phase.value}{task.micro_batch}"


def _task(timeline: TimedSchedule, ipu: int, item: Interval) -> Task:
    hint = (
        f"IPU {ipu}, stage {item.stage}: {_PHASES[item.phase]} of micro-batch "
        f"{item.micro_batch}, {microseconds(item.start_us)} to "
        f"{microseconds(item.end_us)}"
    )
    kind = list(_PHASES).index(item.phase)
    label = task_label(timeline, item)
    return Task(item.start_us, item.end_us, item.slot, label, kind, hint)


def _lane_name(ipu: int, replicas: int, per_replica: int) -> str:
    if replicas <= 1:
        return f"IPU{ipu}"
    members = [str(ipu + replica * per_replica) for replica in range(replicas)]
    if len(members) > 4:
        members = [*members[:2], "..", members[-1]]
    return f"IPU {','.join(members)}"
