"""The least time of the slowest stage, over all cuts whose stages may fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.core.optimizing.least_memory import Floats

Table = Callable[[int, slice, slice], Floats]
"""Of a stage, for its first layers and the ends of its runs."""


def least_bottleneck(
    layers: int, stages: int, time: Table, memory: Table, room: float
) -> float | None:
    """Return it for stages that have a layer each; None if none fit.

    Args:
        layers: How many there are.
        stages: How many runs they are cut into.
        time: Times of a stage.
        memory: Bytes of a stage.
        room: Bytes that a stage may have.
    """
    best = np.full(layers + 1, np.inf)
    best[0] = 0.0
    for stage in range(stages):
        after = stages - 1 - stage
        rows = slice(stage, layers - after if stage else 1)
        columns = slice(stage + 1 if after else layers, layers - after + 1)
        table = np.maximum(time(stage, rows, columns), best[rows, None])
        first = np.arange(rows.start, rows.stop)[:, None]
        empty = first >= np.arange(columns.start, columns.stop)
        table[empty | (memory(stage, rows, columns) > room)] = np.inf
        best = np.full(layers + 1, np.inf)
        best[columns] = table.min(axis=0)
    return float(best[layers]) if np.isfinite(best[layers]) else None
