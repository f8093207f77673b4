"""What a choice can reach at best, whatever its cuts: never less than it does reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ipu_runtime.plan.balance.balance_types import BalanceRequest, Objective
from ipu_runtime.plan.balance.cutting import cut
from ipu_runtime.plan.balance.interval_costs import IntervalCosts
from ipu_runtime.plan.costs.links import all_reduce_us
from ipu_runtime.plan.memory.memory_plan import stage_weights
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.stage_clock import find_beat
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.optimizing.choice import Choice
from workbench.core.planning.balancing import balance_request


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """Modelled sums over the layers, for one micro-batch."""

    request: BalanceRequest
    """The layers, as balancing sees them."""
    forward_us: float
    backward_us: float
    slowest_us: float
    """Both passes of the slowest layer."""
    update_us: float
    """Weight update on one IPU."""
    gradient_bytes: int
    constants: Mapping[str, float]

    @classmethod
    def of(cls, spec: ExperimentSpec, plan: Plan) -> LayerCosts:
        """Read them from the plan of a model on one IPU."""
        request = balance_request(spec, plan, 1, Objective.BOTTLENECK)
        room = float(plan.memory[0].capacity_bytes)
        both = zip(request.forward_us, request.backward_us, strict=True)
        model, value_bytes = (
            plan.request.model,
            2 if spec.model.dtype == "float16" else 4,
        )
        layers = (0,) * len(model.stage_layers)
        _, trained = stage_weights(model, layers, value_bytes)
        # Equal layers share code, which sums over layers count for each of them. No
        # part of the model shares more than all of it does.
        shared = min(0.0, request.fixed_bytes)
        return cls(
            replace(request, fixed_bytes=shared, capacity_bytes=room, locked={}),
            sum(request.forward_us),
            sum(request.backward_us),
            max(forward + backward for forward, backward in both),
            plan.update_us,
            trained[0],
            plan.constants,
        )

    def least_us(self, choice: Choice) -> float:
        """Return the least time of a weight update with all its micro-batches."""
        return self._run_us(choice) + self._update_us(choice)

    def _update_us(self, choice: Choice) -> float:
        """Return the least time of the update itself: weights are shared out evenly."""
        share = self.gradient_bytes // choice.stages
        reduce = all_reduce_us(
            share, choice.replicas, 1, self.constants, choice.ipus_per_replica
        )
        return self.update_us / choice.stages + reduce

    def _run_us(self, choice: Choice) -> float:
        count, stages = choice.accumulation, choice.stages
        both = self.forward_us + self.backward_us
        if not _overlaps(choice):
            return count * both
        forward, backward = _least_shares(choice.schedule, stages, count)
        return max(
            count * self.slowest_us,
            count * both / stages,
            forward * self.forward_us + backward * self.backward_us,
        )

    def least_in_memory_us(self, choice: Choice) -> float | None:
        """Return the same for stages that hold their layers; None if none can.

        The slowest stage of the best cut works on every micro-batch.
        """
        costs = IntervalCosts.of(
            replace(
                self.request,
                stages=choice.stages,
                micro_batches=choice.accumulation,
                schedule=ScheduleKind(choice.schedule),
                recomputation=Recomputation.THEN_BACKPROPAGATE
                if choice.recompute
                else Recomputation.OFF,
                # What is computed again need not be there, and what it begins with is
                # less than the layers' sums say.
                stash_bytes=() if choice.recompute else self.request.stash_bytes,
                offload_activations=choice.offload or choice.recompute,
                copy_us=None,
            )
        )
        bounds = cut(costs, Objective.BOTTLENECK, self.request.capacity_bytes)
        if bounds is None:
            return None
        least = self.least_us(choice)
        if not _overlaps(choice):
            return least
        run_us = choice.accumulation * costs.candidate(bounds).bottleneck_us
        return max(run_us + self._update_us(choice), least)


def _overlaps(choice: Choice) -> bool:
    return choice.stages > 1 and choice.schedule != ScheduleKind.SEQUENTIAL.value


@lru_cache(maxsize=4096)
def _least_shares(schedule: str, stages: int, count: int) -> tuple[float, float]:
    """Return how often all stages' forward and backward times count at least.

    Between two synchronisations the slowest of the active stages decides, which is
    never less than their mean. So every pass of a stage counts with one over the
    number of stages that are active beside it; the stage with the smallest sum bounds
    what any sharing out of the layers can reach.
    """
    beat = find_beat(ScheduleKind(schedule), stages, count)
    active = ((beat.forward + beat.backward) > 0).sum(axis=1)
    weights = beat.counts / active
    return float((weights @ beat.forward).min()), float((weights @ beat.backward).min())
