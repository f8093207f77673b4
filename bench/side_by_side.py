"""Time two ways of doing the same work in turns, so that a busy machine hits both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence

from bench.figure import Figure

Work = Callable[[], object]
"""Does something; a number that it returns is how many seconds of it count."""


def seconds(work: Work) -> float:
    """Return how long one call takes; garbage of earlier work is cleared before."""
    gc.collect()
    began = time.perf_counter()
    counted = work()
    took = time.perf_counter() - began
    return counted if isinstance(counted, float) else took


def ratio(
    area: str,
    name: str,
    ours: Work,
    reference: Work,
    *,
    rounds: int,
    limit: float | None,
    note: str = "",
    best: bool = False,
) -> Figure:
    """Return the time of `ours` as a multiple of the reference's, in turns.

    Both are called once before, so that nothing is measured that happens only once.
    The figure is the median of the rounds, or the best of either side.
    """
    ours(), reference()
    gc.collect()
    # What earlier figures left would else be looked through in the middle of one side.
    gc.freeze()
    pairs = [(seconds(ours), seconds(reference)) for _ in range(rounds)]
    ratios = [mine / other for mine, other in pairs]
    references = [other * 1e3 for _, other in pairs]
    told = f"reference {statistics.median(references):,.0f} ms"
    told += f", at best {min(references):,.0f} ms" + (f", {note}" if note else "")
    return Figure(
        area,
        name,
        statistics.median(ratios) if not best else _best(pairs),
        "x",
        min(ratios),
        max(ratios),
        limit,
        note=told,
    )


def _best(pairs: Sequence[tuple[float, float]]) -> float:
    return min(mine for mine, _ in pairs) / min(other for _, other in pairs)


def of_samples(
    area: str,
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    limit: float | None = None,
    more_is_better: bool = False,
    note: str = "",
) -> Figure:
    """Return the median and spread of what was measured."""
    return Figure(
        area,
        name,
        statistics.median(samples),
        unit,
        min(samples),
        max(samples),
        limit,
        more_is_better,
        note,
    )
