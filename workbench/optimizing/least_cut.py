"""The cut whose stage with most time or memory has least, of those that may fit."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ipu_runtime.plan.balance.cutting import Bools
from workbench.optimizing.least_memory import Floats

Table = Callable[[int, slice, slice], Floats]
"""Of a stage, for its first layers and the ends of its runs."""
_CELLS, _MOST_LIMITS = 16e6, 8
"""Of tables that a cut may take, and how many limits of copies are tried with them."""


class LeastCut(NamedTuple):
    """A cut, and what the stage has that has most."""

    most: float
    stage_of_layer: tuple[int, ...]


def find_least_cut(
    layers: int,
    measure: Table,
    memory: Table,
    room: float,
    starts: Sequence[Bools],
) -> LeastCut | None:
    """Return it for stages that have a layer each; None if none fit.

    Args:
        layers: How many there are.
        measure: What the stage with most of it shall have least of.
        memory: Bytes of a stage.
        room: Bytes that a stage may have.
        starts: Layers that each stage but the first may begin with.
    """
    stages = len(starts) + 1
    best = np.full(layers + 1, np.inf)
    best[0] = 0.0
    chosen = np.zeros((stages, layers + 1), dtype=np.int64)
    for stage in range(stages):
        after = stages - 1 - stage
        rows = slice(stage, layers - after if stage else 1)
        columns = slice(stage + 1 if after else layers, layers - after + 1)
        if stage:
            best[~starts[stage - 1]] = np.inf
        table = np.maximum(measure(stage, rows, columns), best[rows, None])
        first = np.arange(rows.start, rows.stop)[:, None]
        empty = first >= np.arange(columns.start, columns.stop)
        table[empty | (memory(stage, rows, columns) > room)] = np.inf
        winners = table.argmin(axis=0)
        best = np.full(layers + 1, np.inf)
        best[columns] = table[winners, np.arange(table.shape[1])]
        chosen[stage, columns] = winners + rows.start
    if not np.isfinite(best[layers]):
        return None
    end, stage_of_layer = layers, [0] * layers
    for stage in reversed(range(stages)):
        start = int(chosen[stage, end])
        stage_of_layer[start:end] = [stage] * (end - start)
        end = start
    return LeastCut(float(best[layers]), tuple(stage_of_layer))


def find_cut_with_copies(
    copies: Sequence[Floats],
    tries: int,
    solved: Callable[[Sequence[Bools]], LeastCut | None],
) -> LeastCut | None:
    """Return the least of the slowest stage and the longest copy together.

    The stage without copies is solved with limits for them. A cut whose longest copy
    lies between two limits takes no less than the slower stage of the higher limit and
    the lower one. Limits are halved where that is least.

    Args:
        copies: Times of the copies into every stage but the first, by its first layer;
            infinite for layers that it may not begin with.
        tries: How many limits are solved for.
        solved: Gives the best cut of stages that may begin with some layers.
    """
    free = solved([own < np.inf for own in copies])
    if free is None:
        return None
    times = np.unique([own[1:-1] for own in copies])
    limits = times[np.isfinite(times)]
    best = _with_copy(free, copies)
    spans = [(free.most + limits[0], 0, len(limits) - 1, free.most)]
    for _ in range(tries - 1):
        least, low, high, stage_us = spans[0]
        if least >= best.most or low == high:
            break
        heapq.heappop(spans)
        middle = (low + high) // 2
        heapq.heappush(
            spans, (stage_us + limits[middle + 1], middle + 1, high, stage_us)
        )
        cut = solved([own <= limits[middle] for own in copies])
        if cut is not None:
            best = min(best, _with_copy(cut, copies))
            heapq.heappush(spans, (cut.most + limits[low], low, middle, cut.most))
    return best._replace(most=min(best.most, float(spans[0][0])))


def _with_copy(cut: LeastCut, copies: Sequence[Floats]) -> LeastCut:
    starts = [cut.stage_of_layer.index(stage) for stage in range(1, len(copies) + 1)]
    longest = max(own[start] for own, start in zip(copies, starts, strict=True))
    return cut._replace(most=cut.most + float(longest))


def limits_tried(layers: int, stages: int, with_copies: bool) -> int:
    """Return how many limits of copies a cut is solved for."""
    if not with_copies:
        return 1
    return min(max(int(_CELLS / (layers**2 * stages)), 1), _MOST_LIMITS)
