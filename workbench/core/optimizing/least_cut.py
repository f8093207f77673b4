"""The cut whose stage with most time or memory has least, of those that may fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from workbench.core.optimizing.least_memory import Floats

Table = Callable[[int, slice, slice], Floats]
"""Of a stage, for its first layers and the ends of its runs."""


class LeastCut(NamedTuple):
    """A cut, and what the stage has that has most."""

    most: float
    stage_of_layer: tuple[int, ...]


def find_least_cut(
    layers: int, stages: int, measure: Table, memory: Table, room: float
) -> LeastCut | None:
    """Return it for stages that have a layer each; None if none fit.

    Args:
        layers: How many there are.
        stages: How many runs they are cut into.
        measure: What the stage with most of it shall have least of.
        memory: Bytes of a stage.
        room: Bytes that a stage may have.
    """
    best = np.full(layers + 1, np.inf)
    best[0] = 0.0
    chosen = np.zeros((stages, layers + 1), dtype=np.int64)
    for stage in range(stages):
        after = stages - 1 - stage
        rows = slice(stage, layers - after if stage else 1)
        columns = slice(stage + 1 if after else layers, layers - after + 1)
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
