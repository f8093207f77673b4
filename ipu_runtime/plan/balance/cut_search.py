"""Search among cuts with the exact time of a pipeline run."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from ipu_runtime.plan.balance.balance_types import BalanceRequest, Objective
from ipu_runtime.plan.balance.cutting import Bools, cut, find_windows
from ipu_runtime.plan.balance.interval_costs import Floats, IntervalCosts, Ints

_ALL_OF_THEM = 20_000
"""So many partitions are simply all tried."""
_FURTHEST = 3
"""Layers that one move shifts a boundary by at most."""
_WORK = 40_000_000
"""Array elements that the search may touch: about half a second."""
_ROUNDS = 40
_STARTS = 4
"""Seeds that are improved."""
_LIMITS = 12
"""Limits for copies that are tried."""


class CutSearch:
    """Compares cuts by an objective first and the time of a run, then memory, next."""

    def __init__(
        self, costs: IntervalCosts, objective: Objective, capacity: float | None
    ) -> None:
        self._costs = costs
        self._objective = objective
        self._capacity = capacity
        request = costs.request
        windows = find_windows(request.layers, request.stages, request.locked)
        starts = [window.first_start for window in windows]
        self._lowest = np.array([*starts, request.layers])
        self._highest = np.array(
            [window.last_start for window in windows] + [request.layers]
        )
        self._first_end = np.array([window.first_end for window in windows])
        self._last_end = np.array([window.last_end for window in windows])
        self._may_cut = np.ones(request.layers + 1, dtype=bool)
        self._may_cut[list(request.uncut)] = False

    def ranks(self, bounds: Ints) -> Floats:
        """Return objective, run time and peak memory per row; inf if not allowed."""
        ranks = np.full((len(bounds), 3), np.inf)
        allowed = np.flatnonzero(self._allowed(bounds))
        if not len(allowed):
            return ranks
        rows = bounds[allowed]
        memory = self._costs.stage_bytes(rows).max(axis=1)
        times = self._costs.run_times(rows)
        found = np.stack([self._values(rows, times, memory), times, memory], axis=1)
        if self._capacity is not None:
            found[memory > self._capacity] = np.inf
        ranks[allowed] = found
        return ranks

    def _values(self, bounds: Ints, times: Floats, memory: Floats) -> Floats:
        if self._objective is Objective.STEP_TIME:
            return times
        if self._objective is Objective.PEAK_MEMORY:
            return memory
        if self._objective is Objective.BOTTLENECK:
            return self._costs.bottlenecks(bounds)
        crossing: Floats = self._costs.incoming[bounds[:, 1:-1]].sum(axis=1)
        return crossing

    def try_all(self) -> tuple[Ints | None, Ints | None] | None:
        """Return the best and the second best cut, or None if there are too many."""
        count, stages = self._costs.request.layers, self._costs.request.stages
        if comb(count - 1, stages - 1) > _ALL_OF_THEM:
            return None
        inner = list(combinations(range(1, count), stages - 1))
        bounds = np.empty((len(inner), stages + 1), dtype=np.int64)
        bounds[:, 0], bounds[:, -1] = 0, count
        bounds[:, 1:-1] = np.array(inner, dtype=np.int64).reshape(len(inner), -1)
        ranks = self.ranks(bounds)
        order = _sorted(ranks)[:2]
        good = [bounds[row] for row in order if np.isfinite(ranks[row, 0])]
        return (good[0] if good else None, good[1] if len(good) > 1 else None)

    def improve(self, seeds: list[Ints]) -> tuple[Ints, Ints | None]:
        """Return the best cut reached by moving boundaries, and the one before it."""
        rows = np.unique(np.array(seeds), axis=0)
        starts = rows[_sorted(self.ranks(rows))[:_STARTS]]
        stages, turns = self._costs.request.stages, self._costs.supersteps.forward.size
        per_round = 2 * _FURTHEST * stages * turns
        rounds = min(max(2, _WORK // per_round), _ROUNDS)
        # A large problem has time for one climb only.
        climbs = starts[: max(1, rounds // 10)]
        ends = [cut for start in climbs for cut in self._climb(start, rounds)]
        found = np.unique(np.array(ends), axis=0)
        ranks = self.ranks(found)
        order = [row for row in _sorted(ranks) if np.isfinite(ranks[row, 0])]
        return found[order[0]], found[order[1]] if len(order) > 1 else None

    def _climb(self, best: Ints, rounds: int) -> list[Ints]:
        """Return the last cuts on the way up, the best one first."""
        second = best
        for _ in range(rounds):
            moves = self._neighbours(best)
            if not len(moves):
                break
            here = self.ranks(best[None, :])[0]
            ranks = self.ranks(moves)
            joined = self._joined(best, moves, ranks, here)
            moves = np.concatenate([moves, joined])
            ranks = np.concatenate([ranks, self.ranks(joined)])
            winner = _sorted(ranks)[0]
            if tuple(ranks[winner]) >= tuple(here):
                second = moves[winner]
                break
            second, best = best, moves[winner]
        return [best, second]

    def _neighbours(self, bounds: Ints) -> Ints:
        inner = len(bounds) - 2
        shifts = [s for s in range(-_FURTHEST, _FURTHEST + 1) if s]
        moves = np.repeat(bounds[None, :], inner * len(shifts), axis=0)
        position = np.repeat(np.arange(1, inner + 1), len(shifts))
        moves[np.arange(len(moves)), position] += np.tile(shifts, inner)
        return moves[self._allowed(moves)]

    def _joined(self, best: Ints, moves: Ints, ranks: Floats, here: Floats) -> Ints:
        """Return the improving moves done together: all, every second, ..."""
        better = np.flatnonzero(ranks[:, 0] < here[0])
        if not len(better):
            # A plateau: shift what costs nothing, so that several stages can follow.
            better = np.flatnonzero(ranks[:, 0] == here[0])
        taken: dict[int, int] = {}
        for row in better[np.argsort(ranks[better, 0], kind="stable")]:
            position = int(np.flatnonzero(moves[row] != best)[0])
            taken.setdefault(position, int(moves[row, position]))
        combined = []
        for share in (len(taken), len(taken) // 2, len(taken) // 4):
            row = best.copy()
            for position, value in list(taken.items())[:share]:
                row[position] = value
            combined.append(row)
        rows = np.unique(np.array(combined), axis=0)
        return rows[self._allowed(rows)]

    def _allowed(self, bounds: Ints) -> Bools:
        starts, ends = bounds[:, :-1], bounds[:, 1:]
        within = np.concatenate(
            [
                starts < ends,
                (bounds >= self._lowest) & (bounds <= self._highest),
                (ends >= self._first_end) & (ends <= self._last_end),
                self._may_cut[np.clip(bounds, 0, len(self._may_cut) - 1)],
            ],
            axis=1,
        )
        return np.asarray(within.all(axis=1))


def _sorted(ranks: Floats) -> Ints:
    order: Ints = np.lexsort(ranks.T[::-1])
    return order


def search_cut(costs: IntervalCosts) -> tuple[Ints | None, Ints | None, bool]:
    """Return the best cut, another good one, and whether the first is proven."""
    request = costs.request
    search = CutSearch(costs, request.objective, request.capacity_bytes)
    tried = search.try_all()
    if tried is not None:
        return (*tried, True)
    proven = request.objective is not Objective.STEP_TIME
    seed = cut(costs, request.objective, request.capacity_bytes)
    if seed is None:
        return None, None, True
    seeds = [seed, uniform_bounds(request)]
    if not proven:
        seeds += _seeds_by_copy(costs)
    current = read_bounds(request, request.current) if request.current else None
    if current is not None:
        seeds.append(current)
    return (*search.improve(seeds), proven)


def uniform_bounds(request: BalanceRequest) -> Ints:
    """Return boundaries that spread layers evenly, the remainder too."""
    steps = np.arange(request.stages + 1)
    bounds: Ints = steps * request.layers // request.stages
    return bounds


def read_bounds(
    request: BalanceRequest, stage_of_layer: tuple[int, ...]
) -> Ints | None:
    """Return the boundaries of an assignment; None if stages are not consecutive."""
    stages = np.asarray(stage_of_layer, dtype=np.int64)
    if len(stages) != request.layers or np.any(np.diff(stages) < 0):
        return None
    if not np.array_equal(np.unique(stages), np.arange(request.stages)):
        return None
    bounds: Ints = np.searchsorted(stages, np.arange(request.stages + 1))
    return bounds


def _seeds_by_copy(costs: IntervalCosts) -> list[Ints]:
    """Return the best cuts under several limits for copies.

    The largest copy delays every step, so a cheap boundary can be worth an imbalance.
    """
    request = costs.request
    affordable = _WORK // (request.layers**2 * request.stages)
    values = np.unique(costs.incoming_us[1:, 1:-1])
    if not affordable or len(values) < 2:
        return []
    shares = np.linspace(0.0, 1.0, min(affordable, _LIMITS, len(values)))
    seeds = []
    for limit in np.unique(np.quantile(values, shares, method="nearest")).tolist():
        found = cut(costs, Objective.STEP_TIME, request.capacity_bytes, limit)
        if found is not None:
            seeds.append(found)
    return seeds
