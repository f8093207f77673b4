"""The same stages under every schedule: time, bubble and what has to be kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_timeline import plan_timeline, stage_times
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import Schedule, ScheduleKind
from ipu_runtime.plan.schedule.timeline import Timeline, build_timeline
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.experiment_plan import plan_experiment

_MOST_WHATIF = 50_000
"""Forward passes of a run: what the IPU does not have is timed task by task."""


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule with its modelled figures."""

    kind: ScheduleKind
    reason: str = ""
    """Why it cannot be used here; empty if it can."""
    timeline: Timeline | None = None
    micro_batches: int = 1
    stash: int = 0
    """Micro-batches that wait at most between forward and backward, in one stage."""
    memory_fraction: float | None = None
    """Of the fullest tile; unknown for schedules that the IPU does not have."""
    rest_us: float = 0.0
    """Update, all-reduce and host per micro-batch: the same under every schedule."""
    replicas: int = 1

    @property
    def us_per_batch(self) -> float:
        """Modelled time per batch over all replicas, as the plan counts it."""
        if self.timeline is None:
            return 0.0
        pipeline_us = self.timeline.total_us / self.micro_batches
        return (pipeline_us + self.rest_us) / self.replicas


def compare_schedules(spec: ExperimentSpec, plan: Plan) -> list[ScheduleRow]:
    """Return every schedule, those of the IPU first."""
    if plan.schedule is None:
        return []
    rest_us = plan.ipu_step_us - plan.run_us / plan.schedule.micro_batches
    return [
        replace(
            _row(kind, spec, plan, plan.schedule),
            rest_us=rest_us,
            replicas=plan.replicas,
        )
        for kind in ScheduleKind
    ]


def _row(
    kind: ScheduleKind, spec: ExperimentSpec, plan: Plan, now: Schedule
) -> ScheduleRow:
    count = now.micro_batches
    if kind.on_ipu:
        changed = replace(spec, pipeline=replace(spec.pipeline, schedule=kind.value))
        planned = plan_experiment(changed)
        errors = [p for p in planned.problems if p.severity is Severity.ERROR]
        if errors or planned.schedule is None:
            return ScheduleRow(kind, str(errors[0]) if errors else "no pipeline")
        return ScheduleRow(
            kind,
            timeline=plan_timeline(planned),
            micro_batches=count,
            stash=max(planned.schedule.fifo_depth),
            memory_fraction=planned.memory_fraction,
        )
    if now.stages * count > _MOST_WHATIF:
        return ScheduleRow(kind, f"not timed beyond {_MOST_WHATIF:,} forward passes")
    try:
        schedule = build_schedule(
            kind, now.stages, count, device_mapping=now.device_mapping
        )
    except ValueError as error:
        return ScheduleRow(kind, str(error))
    times = stage_times(plan)
    if kind is ScheduleKind.ZERO_BUBBLE_H1:
        # Half of the backward work is taken to be that of the weights.
        half = tuple(time / 2 for time in times.backward)
        times = replace(times, backward=half, weight_gradient=half)
    return ScheduleRow(
        kind,
        timeline=build_timeline(schedule, times),
        micro_batches=count,
        stash=max(schedule.fifo_depth),
    )
