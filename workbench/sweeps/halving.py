"""Successive halving: the worse half of the points is left out again and again."""

from __future__ import annotations

import importlib.util
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from ipu_runtime.plan.problem import Problem

OBJECTIVES = {"accuracy": "maximize", "loss": "minimize"}
"""What an epoch ends with, and which way is better, as Optuna says it."""
NEEDS_EXTRA = "Optuna is not installed: pip install 'ipu-workbench[early-stopping]'"
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
        if importlib.util.find_spec("optuna") is None:
            return [Problem("--budget", NEEDS_EXTRA)]
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


def going_on(values: Mapping[int, float], objective: str, count: int) -> list[int]:
    """Return the points that go on, best first, by what they have come to.

    Optuna decides, as for a point of which all others are known: so the order in which
    points end, and where they do, makes no difference.
    """
    values = {index: value for index, value in values.items() if math.isfinite(value)}
    sign = -1 if OBJECTIVES[objective] == "maximize" else 1
    ranked = sorted(values, key=lambda index: (sign * values[index], index))

    def is_stopped(index: int) -> bool:
        others = [value for other, value in values.items() if other != index]
        return _pruned([*others, values[index]], OBJECTIVES[objective])

    return ranked[: min(count, bisect_left(ranked, True, key=is_stopped))]


def _pruned(values: list[float], direction: str) -> bool:
    """Tell whether the last of some trials is to end, with what the others had."""
    # An extra, and only sweeps with a budget need it.
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(
        min_resource=1, reduction_factor=_FACTOR
    )
    study = optuna.create_study(direction=direction, pruner=pruner)
    pruned = False
    for value in values:
        trial = study.ask()
        trial.report(value, step=1)
        pruned = trial.should_prune()
    return pruned
