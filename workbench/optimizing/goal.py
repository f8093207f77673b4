"""What a plan is best at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ipu_runtime.plan.balance.balance_types import Objective
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.schedule.schedule import ScheduleKind


class Goal(Enum):
    """What is asked for."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    MEMORY = "memory"
    TIME_TO_SAMPLES = "time-to-samples"


@dataclass(frozen=True, slots=True)
class Aim:
    """A goal with what it needs to be measured; less is better."""

    goal: Goal
    samples: int
    """Samples of the whole training, for the time that they take."""

    @property
    def balances(self) -> Objective:
        """What the cuts between stages shall have least of."""
        memory = self.goal is Goal.MEMORY
        return Objective.PEAK_MEMORY if memory else Objective.STEP_TIME

    @property
    def unit(self) -> str:
        """What its cost is said of."""
        return {Goal.THROUGHPUT: "a sample", Goal.LATENCY: "an update"}.get(
            self.goal, self.goal.value
        )

    def cost(self, plan: Plan) -> float:
        """Return what the goal wants least of."""
        if self.goal is Goal.LATENCY:
            return update_us(plan)
        if self.goal is Goal.MEMORY:
            return plan.memory_fraction
        per_sample = 1e6 / plan.samples_per_second
        if self.goal is Goal.THROUGHPUT:
            return per_sample
        return plan.compile_s * 1e6 + per_sample * self.samples

    def change(self, cost: float, best: float) -> float:
        """Return by what share the goal's figure differs from that of the best."""
        return (best / cost if self.goal is Goal.THROUGHPUT else cost / best) - 1


def update_us(plan: Plan) -> float:
    """Return the time of a weight update: all its micro-batches.

    Without training it is the time of one micro-batch through all stages, which take
    turns unless only one of them runs at a time.
    """
    if plan.request.training:
        return plan.ipu_step_us * max(1, plan.request.gradient_accumulation)
    pipeline = plan.request.pipeline
    if pipeline is None or pipeline.schedule is ScheduleKind.SEQUENTIAL:
        return plan.ipu_step_us
    slowest_us = max(stage.forward_us for stage in plan.stages)
    return plan.ipu_step_us + (pipeline.stages - 1) * (slowest_us + plan.copy_us)
