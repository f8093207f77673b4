"""Successive halving: the worse half of the points is left out again and again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ipu_runtime.plan.problem import Problem
from workbench.sweeps.sweep_point import PointResult, ranked

OBJECTIVES = ("accuracy", "loss")
"""What an epoch ends with, by which points can be compared."""
_FACTOR = 2


@dataclass(frozen=True, slots=True)
class Halving:
    """How a sweep stops points early."""

    objective: str
    """By what points are compared at the end of an epoch."""
    budget: int
    """Epochs of all points together, at most."""

    def problems(self, points: int) -> list[Problem]:
        """Return why so many points cannot be halved."""
        if self.budget < points:
            text = f"{self.budget} epochs are less than one for each point"
            return [Problem("--budget", text, f"at least {points}")]
        return []

    def rungs(self, points: int, epochs: int) -> tuple[tuple[int, int], ...]:
        """Return how many points are to reach which epoch, as the budget allows.

        The first epochs are as many as leave enough for the halves that follow. If
        even one is too many, fewer points go on in the end.
        """
        first = 1
        while first < epochs and _cost(_halved(points, first + 1, epochs)) <= (
            self.budget
        ):
            first += 1
        rungs: list[tuple[int, int]] = []
        left, before = self.budget, 0
        for count, epoch in _halved(points, first, epochs):
            count = min(count, left // (epoch - before)) or 1
            epoch = min(epoch, before + left // count)
            if epoch > before:
                rungs.append((count, epoch))
            left, before = left - count * (epoch - before), epoch
        return tuple(rungs)

    def going_on(self, reached: Collection[PointResult], count: int) -> list[int]:
        """Return the points of the better half that go on, best first.

        All that reached the rung are compared at once, so that the order in which
        points end, and where they do, makes no difference. Those that failed, or have
        no number to show, go no further.

        Args:
            reached: What came of the points up to this rung.
            count: How many the budget has room for.
        """
        ordered = ranked(reached, f"{self.objective}_last")
        better = ordered[: max(1, len(ordered) // _FACTOR)]
        return [result.index for result in better[:count]]


def _halved(points: int, first: int, epochs: int) -> list[tuple[int, int]]:
    """Return points and epochs until one point is left, which has all epochs."""
    rungs: list[tuple[int, int]] = []
    count, epoch = points, min(first, epochs)
    while count > 1 and epoch < epochs:
        rungs.append((count, epoch))
        count, epoch = max(1, count // _FACTOR), epoch * _FACTOR
    return [*rungs, (count, epochs)]


def _cost(rungs: list[tuple[int, int]]) -> int:
    ends = [0, *(epoch for _, epoch in rungs)]
    return sum(
        count * (epoch - before)
        for (count, epoch), before in zip(rungs, ends, strict=False)
    )
