"""Which axes of a sweep matter most, and the best that each of their values reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.sweeps.sweep_grid import Axis
from workbench.sweeps.sweep_point import HIGHER_IS_BETTER, PointResult


@dataclass(frozen=True, slots=True)
class Surface:
    """The best value of a metric over two axes, or over one."""

    down: Axis
    across: Axis | None
    best: dict[tuple[str, str], float]
    """By the values of the two axes; the second is empty if there is one axis."""

    def share(self, down: str, across: str, metric: str) -> float | None:
        """Return how good a cell is, from 0 the worst to 1 the best."""
        value = self.best.get((down, across))
        if value is None:
            return None
        low, high = min(self.best.values()), max(self.best.values())
        place = (value - low) / (high - low) if high > low else 1.0
        return place if metric in HIGHER_IS_BETTER else 1 - place


def surface(
    results: Sequence[PointResult], axes: Sequence[Axis], metric: str
) -> Surface | None:
    """Return the metric over the two axes that change it most; None without points."""
    good = [
        result
        for result in results
        if not result.problem and result.metrics.get(metric) is not None
    ]
    if not good or not axes:
        return None
    ordered = sorted(axes, key=lambda axis: -_effect(good, axis, metric))
    down, across = ordered[0], ordered[1] if len(ordered) > 1 else None
    return Surface(down, across, _best(good, down, across, metric))


def _effect(good: Sequence[PointResult], axis: Axis, metric: str) -> float:
    """Return how far apart the best points of an axis' values are."""
    best = _best(good, axis, None, metric).values()
    return max(best) - min(best)


def _best(
    good: Sequence[PointResult], down: Axis, across: Axis | None, metric: str
) -> dict[tuple[str, str], float]:
    choose = max if metric in HIGHER_IS_BETTER else min
    best: dict[tuple[str, str], float] = {}
    for result in good:
        key = (result.values[down.path], result.values[across.path] if across else "")
        value = result.metrics[metric]
        best[key] = choose(best.get(key, value), value)
    return best
