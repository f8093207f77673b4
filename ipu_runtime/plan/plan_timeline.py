"""The timeline of a plan's own pipeline."""

from __future__ import annotations

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.schedule.timeline import (
    Clock,
    StageTimes,
    Timeline,
    build_timeline,
)


def stage_times(plan: Plan) -> StageTimes:
    """Return the modelled times of a plan's stages."""
    return StageTimes(
        forward=tuple(stage.forward_us for stage in plan.stages),
        backward=tuple(stage.backward_us for stage in plan.stages),
        recompute=tuple(stage.recompute_us for stage in plan.stages),
        copy_us=plan.copy_us,
    )


def plan_timeline(plan: Plan, clock: Clock = Clock.STEP) -> Timeline | None:
    """Return the timeline of one pipeline run; None without a pipeline."""
    if plan.schedule is None:
        return None
    return build_timeline(plan.schedule, stage_times(plan), clock)
