"""Changes that may make room for a model, each one tried."""

from __future__ import annotations

from dataclasses import replace

from ipu_runtime.plan.balance.balance_types import BalanceRequest, Fix, Objective
from ipu_runtime.plan.balance.cut_search import search_cut
from ipu_runtime.plan.balance.cutting import cut
from ipu_runtime.plan.balance.interval_costs import IntervalCosts
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind


def find_fixes(request: BalanceRequest) -> tuple[Fix, ...]:
    """Balance again under every change that saves memory."""
    return tuple(_try(text, changed) for text, changed in _changes(request))


def smallest_excess(costs: IntervalCosts) -> float | None:
    """Return the memory that the best packing lacks; None if no cut is allowed."""
    bounds = cut(costs, Objective.PEAK_MEMORY, None)
    if bounds is None:
        return None
    capacity = costs.request.capacity_bytes or 0.0
    return max(0.0, costs.candidate(bounds).peak_bytes - capacity)


def _try(text: str, request: BalanceRequest) -> Fix:
    costs = IntervalCosts.of(request)
    excess = smallest_excess(costs)
    if excess is None or excess > 0:
        return Fix(text, False, float("inf") if excess is None else excess)
    best = search_cut(costs)[0]
    time = costs.candidate(best).step_time_us if best is not None else None
    return Fix(text, True, 0.0, time)


def _changes(request: BalanceRequest) -> list[tuple[str, BalanceRequest]]:
    """Return the changes that may make room, each as a request of its own."""
    changes: list[tuple[str, BalanceRequest]] = []
    mode = (
        Recomputation.WITH_BACKPROPAGATE
        if request.schedule is ScheduleKind.SEQUENTIAL
        else Recomputation.THEN_BACKPROPAGATE
    )
    interleaved = replace(request, schedule=ScheduleKind.INTERLEAVED)
    recomputing = replace(request, recomputation=mode)
    grouped = request.schedule is ScheduleKind.GROUPED
    if request.recomputation is Recomputation.OFF:
        changes.append(("recomputation on", recomputing))
    if grouped and request.recomputation is not Recomputation.WITH_BACKPROPAGATE:
        changes.append(("Interleaved instead of Grouped", interleaved))
        if request.recomputation is Recomputation.OFF:
            both = replace(interleaved, recomputation=mode)
            changes.append(("Interleaved and recomputation on", both))
    if not request.offload_activations:
        offloading = replace(request, offload_activations=True)
        changes.append(("activations offloaded (transfers not timed)", offloading))
    for stages in (request.stages + 1, 2 * request.stages, 4 * request.stages):
        if stages <= request.layers:
            overlap = overlap_length(request.schedule, range(stages), True)
            count = -(-request.micro_batches // overlap) * overlap
            text = f"{stages} stages"
            if count != request.micro_batches:
                text += f" with {count} micro-batches per update"
            more = replace(request, stages=stages, micro_batches=count, current=())
            changes.append((text, more))
    return changes
