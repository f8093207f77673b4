"""Balancing: which layers go to which pipeline stage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ipu_runtime.plan.balance.balance_types import (
    BalanceRequest,
    BalanceResult,
    Candidate,
    Fix,
    Move,
    Objective,
)
from ipu_runtime.plan.balance.cut_search import (
    CutSearch,
    read_bounds,
    search_cut,
    uniform_bounds,
)
from ipu_runtime.plan.balance.cutting import cut, fast_bottleneck
from ipu_runtime.plan.balance.interval_costs import IntervalCosts
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)

__all__ = ["BalanceRequest", "BalanceResult", "Objective", "balance", "evaluate"]


def balance(request: BalanceRequest) -> BalanceResult:
    """Return the best partition under the request's objective."""
    problem = _problem(request)
    if problem:
        return BalanceResult(request, None, problem=problem)
    costs = IntervalCosts.of(request)
    best, second, exact = search_cut(costs)
    uniform = costs.candidate(uniform_bounds(request))
    now = evaluate(request, request.current) if request.current else None
    if best is None:
        return _infeasible(request, costs, uniform, now)
    winner = costs.candidate(best)
    slack: tuple[float, ...] = ()
    if request.capacity_bytes is not None:
        slack = tuple(request.capacity_bytes - used for used in winner.stage_bytes)
    slowest = max(winner.stage_us)
    return BalanceResult(
        request,
        winner,
        costs.candidate(second) if second is not None else None,
        exact,
        uniform,
        now,
        time_slack_us=tuple(slowest - time for time in winner.stage_us),
        memory_slack_bytes=slack,
        binding=_binding(request, costs, winner, slack),
        best_move=_best_move(request, costs),
    )


def evaluate(
    request: BalanceRequest, stage_of_layer: tuple[int, ...]
) -> Candidate | None:
    """Return the figures of a partition; None if its stages are not consecutive."""
    bounds = read_bounds(request, stage_of_layer)
    return None if bounds is None else IntervalCosts.of(request).candidate(bounds)


def _problem(request: BalanceRequest) -> str:
    if request.stages < 1 or request.stages > request.layers:
        return (
            f"{request.layers} layers cannot fill {request.stages} stages: "
            f"ask for 1 to {request.layers}"
        )
    for layer, stage in request.locked.items():
        if not 0 <= layer < request.layers or not 0 <= stage < request.stages:
            return f"layer {layer} is locked to stage {stage}, which does not exist"
    return ""


def _best_move(request: BalanceRequest, costs: IntervalCosts) -> Move | None:
    """Return the one layer whose move to a neighbouring stage helps most."""
    bounds = read_bounds(request, request.current) if request.current else None
    if bounds is None:
        return None
    search = CutSearch(costs, request.objective, request.capacity_bytes)
    moves = []
    for position in range(1, request.stages):
        for shift in (-1, 1):
            moved = bounds.copy()
            moved[position] += shift
            layer = int(min(bounds[position], moved[position]))
            target = position if shift < 0 else position - 1
            moves.append((layer, target, moved))
    if not moves:
        return None
    values = search.ranks(np.array([moved for _, _, moved in moves]))[:, 0]
    here = costs.candidate(bounds).value(request.objective)
    winner = int(values.argmin())
    layer, target, _ = moves[winner]
    gain = here - float(values[winner])
    if gain <= 0:
        return None
    return Move(layer, request.current[layer], target, gain)


def _binding(
    request: BalanceRequest,
    costs: IntervalCosts,
    best: Candidate,
    slack: tuple[float, ...],
) -> str:
    """Say what keeps the result from being better."""
    slowest, slowest_us = int(np.argmax(best.stage_us)), max(best.stage_us)
    if request.objective in (Objective.PEAK_MEMORY, Objective.CROSSING):
        fullest = int(np.argmax(best.stage_bytes))
        return f"memory of stage {fullest}"
    if slack and fast_bottleneck(costs) < slowest_us * (1 - 1e-9):
        free = CutSearch(costs, request.objective, None).try_all()
        bounds = free[0] if free else cut(costs, request.objective, None)
        if bounds is not None:
            value = costs.candidate(bounds).value(request.objective)
            if value < best.value(request.objective) * (1 - 1e-9):
                return f"memory of stage {int(np.argmin(slack))}"
    layers = [i for i, stage in enumerate(best.stage_of_layer) if stage == slowest]
    if len(layers) == 1:
        return f"time of layer {layers[0]}, alone in stage {slowest}"
    return f"time of stage {slowest}"


def _no_room(request: BalanceRequest) -> str:
    if not request.locked and request.together:
        return f"layers that share weights cannot be cut into {request.stages} stages"
    return "the locked layers leave no room for the stages between them"


def _infeasible(
    request: BalanceRequest,
    costs: IntervalCosts,
    uniform: Candidate,
    now: Candidate | None,
) -> BalanceResult:
    excess = _smallest_excess(costs)
    if excess is None:
        return BalanceResult(
            request,
            None,
            uniform=uniform,
            now=now,
            problem=_no_room(request),
        )
    return BalanceResult(
        request,
        None,
        uniform=uniform,
        now=now,
        binding="memory",
        excess_bytes=excess,
        fixes=_fixes(request),
    )


def _fixes(request: BalanceRequest) -> tuple[Fix, ...]:
    """Balance again under every change that saves memory."""
    return tuple(_try(text, changed) for text, changed in _changes(request))


def _smallest_excess(costs: IntervalCosts) -> float | None:
    """Return the memory that the best packing lacks; None if no cut is allowed."""
    bounds = cut(costs, Objective.PEAK_MEMORY, None)
    if bounds is None:
        return None
    capacity = costs.request.capacity_bytes or 0.0
    return max(0.0, costs.candidate(bounds).peak_bytes - capacity)


def _try(text: str, request: BalanceRequest) -> Fix:
    costs = IntervalCosts.of(request)
    excess = _smallest_excess(costs)
    if excess is None or excess > 0:
        return Fix(text, False, float("inf") if excess is None else excess)
    best = search_cut(costs)[0]
    time = costs.candidate(best).step_time_us if best is not None else None
    return Fix(text, True, 0.0, time)


def _changes(request: BalanceRequest) -> list[tuple[str, BalanceRequest]]:
    """Return the changes that may make room, each as a request of its own."""
    changes: list[tuple[str, BalanceRequest]] = []
    mode = automatic_recomputation(request.schedule)
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
