"""Exact cuts of a chain of layers by dynamic programming, and a fast bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.balance.balance_types import Objective
from ipu_runtime.plan.balance.interval_costs import Floats, IntervalCosts, Ints
from ipu_runtime.plan.schedule.schedule import ScheduleKind

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Window:
    """Where a stage may start and end: no stage is empty, locked layers stay."""

    first_start: int
    last_start: int
    first_end: int
    last_end: int


def find_windows(count: int, stages: int, locked: Mapping[int, int]) -> list[Window]:
    """Return the window of every stage; `locked` has the stage of some layers."""
    windows = []
    for stage in range(stages):
        own = [layer for layer, at in locked.items() if at == stage]
        before = [layer for layer, at in locked.items() if at < stage]
        after = [layer for layer, at in locked.items() if at > stage]
        windows.append(
            Window(
                first_start=max([stage, *(layer + 1 for layer in before)]),
                last_start=min([count - (stages - stage), *own]) if stage else 0,
                first_end=max([stage + 1, *(layer + 1 for layer in own)]),
                last_end=min([count - (stages - 1 - stage), *after]),
            )
        )
    return windows


def cut(
    costs: IntervalCosts,
    objective: Objective,
    capacity: float | None,
    copy_limit_us: float | None = None,
) -> Ints | None:
    """Return the boundaries with the least bottleneck, peak memory or crossing.

    For the step time this gives the cut with the least steady time per micro-batch:
    where its exact minimum is searched from. With a limit for copies, only stages'
    own times count, and boundaries that would exceed the limit are left out.
    """
    request = costs.request
    count, stages = request.layers, request.stages
    uncut = list(request.uncut)
    measure = _Measure(costs, objective, capacity, copy_limit_us)
    best = np.full(count + 1, np.inf)
    best[0] = -np.inf if objective is not Objective.CROSSING else 0.0
    chosen = np.zeros((stages, count + 1), dtype=np.int64)
    for stage, window in enumerate(find_windows(count, stages, request.locked)):
        rows = slice(window.first_start, window.last_start + 1)
        columns = slice(window.first_end, window.last_end + 1)
        if rows.start >= rows.stop or columns.start >= columns.stop:
            return None
        table = measure.table(stage, rows, columns)
        if objective is Objective.CROSSING:
            table += best[rows, None]
        else:
            np.maximum(table, best[rows, None], out=table)
        starts = np.arange(rows.start, rows.stop)
        ends = np.arange(columns.start, columns.stop)
        np.copyto(table, np.inf, where=starts[:, None] >= ends)
        winner = table.argmin(axis=0)
        best = np.full(count + 1, np.inf)
        best[columns] = table[winner, np.arange(table.shape[1])]
        best[uncut] = np.inf
        chosen[stage, columns] = winner + rows.start
    if not np.isfinite(best[count]):
        return None
    bounds = [count]
    for stage in reversed(range(stages)):
        bounds.append(int(chosen[stage, bounds[-1]]))
    return np.array(bounds[::-1])


class _Measure:
    """What the programme minimises, as a table over starts and ends of a stage."""

    def __init__(
        self,
        costs: IntervalCosts,
        objective: Objective,
        capacity: float | None,
        copy_limit_us: float | None,
    ) -> None:
        self._costs = costs
        self._copy_limit_us = copy_limit_us
        self._objective = objective
        self._capacity = capacity
        needs_memory = capacity is not None or objective is Objective.PEAK_MEMORY
        has_working = needs_memory and bool(costs.request.working_bytes)
        self._working = costs.working_matrix() if has_working else None

    def table(self, stage: int, rows: slice, columns: slice) -> Floats:
        """Return the cost of a stage for every start and end; inf where too large."""
        if self._objective is Objective.PEAK_MEMORY:
            table = self._memory(stage, rows, columns)
            memory = table
        else:
            table = self._time_or_crossing(stage, rows, columns)
            if self._capacity is None:
                return table
            memory = self._memory(stage, rows, columns)
        if self._capacity is not None:
            np.copyto(table, np.inf, where=memory > self._capacity)
        return table

    def _memory(self, stage: int, rows: slice, columns: slice) -> Floats:
        table = self._costs.memory_table(stage, rows, columns)
        if self._working is not None:
            table += self._working[rows, columns]
        return table

    def _time_or_crossing(self, stage: int, rows: slice, columns: slice) -> Floats:
        costs = self._costs
        if self._objective is Objective.CROSSING:
            crossing = costs.incoming[rows] if stage else np.zeros(1)
            width = columns.stop - columns.start
            return np.repeat(crossing[:, None], width, axis=1)
        last = stage == costs.request.stages - 1
        forward, backward = costs.forward, costs.backward
        if not last:
            forward = forward + costs.recompute
        arriving = costs.incoming_us[stage, rows, None]
        if self._copy_limit_us is not None:
            arriving = np.where(arriving > self._copy_limit_us, np.inf, 0.0)
        interleaved = costs.request.schedule is ScheduleKind.INTERLEAVED
        if interleaved and self._objective is Objective.STEP_TIME:
            # Forward and backward of neighbours share a slot, so the larger counts.
            table = forward[None, columns] - forward[rows, None]
            np.maximum(table, backward[None, columns] - backward[rows, None], out=table)
            return table + arriving
        both = forward + backward
        return both[None, columns] - (both[rows, None] - arriving)


def fast_bottleneck(costs: IntervalCosts) -> float:
    """Return the least bottleneck of stages with room for everything, by probing.

    Extending every stage as far as a limit allows decides the limit. Memory would not
    allow that: a layer that one stage cannot keep may fit a later one, whose stash is
    smaller. Copies and recomputation are left out.
    """
    request = costs.request
    total = costs.forward + costs.backward

    def reaches_end(limit: float) -> bool:
        start = 0
        for stage in range(request.stages):
            last = request.layers - (request.stages - 1 - stage)
            end = int(np.searchsorted(total, total[start] + limit, side="right")) - 1
            end = min(end, last)
            if end <= start:
                return False
            start = end
        return start == request.layers

    sizes = total[None, :] - total[:, None]
    limits = np.unique(sizes[np.triu_indices(len(total), 1)])
    low, high = 0, len(limits) - 1
    while low < high:
        middle = (low + high) // 2
        if reaches_end(float(limits[middle])):
            high = middle
        else:
            low = middle + 1
    return float(limits[low])
