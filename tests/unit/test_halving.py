"""Successive halving: what a budget buys, and which points go on."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from workbench.sweeps.halving import Halving
from workbench.sweeps.sweep_point import PointResult


@pytest.mark.parametrize(
    ("points", "epochs", "budget", "rungs"),
    [
        (12, 8, 40, ((12, 1), (6, 2), (3, 4), (1, 8))),
        (12, 8, 56, ((12, 2), (6, 4), (3, 8))),
        (12, 8, 96, ((12, 8),)),
        (12, 8, 20, ((12, 1), (6, 2), (1, 4))),
        (12, 8, 12, ((12, 1),)),
        (3, 100, 40, ((3, 1), (1, 38))),
        (1, 10, 5, ((1, 5),)),
    ],
)
def test_a_budget_is_spent_on_fewer_and_fewer_points(
    points: int, epochs: int, budget: int, rungs: tuple[tuple[int, int], ...]
) -> None:
    halving = Halving("accuracy", budget)
    assert halving.rungs(points, epochs) == rungs


@pytest.mark.parametrize("points", [2, 5, 12, 40])
@pytest.mark.parametrize("epochs", [1, 3, 8, 50])
@pytest.mark.parametrize("spare", [0, 1, 17, 200])
def test_no_budget_is_exceeded(points: int, epochs: int, spare: int) -> None:
    spent, before = 0, 0
    for count, epoch in Halving("loss", points + spare).rungs(points, epochs):
        spent += count * (epoch - before)
        before = epoch
    assert spent <= points + spare
    assert before <= epochs


def _reached(objective: str, values: Mapping[int, float]) -> list[PointResult]:
    return [
        PointResult(index, {}, {f"{objective}_last": value})
        for index, value in values.items()
    ]


@pytest.mark.parametrize(
    ("objective", "better"), [("accuracy", [4, 1, 3]), ("loss", [0, 5, 2])]
)
def test_the_better_half_goes_on_best_first(objective: str, better: list[int]) -> None:
    values = {0: 0.1, 1: 0.8, 2: 0.3, 3: 0.7, 4: 0.9, 5: 0.2}
    halving = Halving(objective, 40)
    reached = _reached(objective, values)
    assert halving.going_on(reached, 6) == better
    assert halving.going_on(reached[::-1], 6) == better
    assert halving.going_on(reached, 2) == better[:2]
    assert halving.going_on(reached, 0) == []


def test_the_last_two_of_equals_are_told_apart_by_their_place() -> None:
    reached = _reached("loss", {3: 0.5, 1: 0.5, 2: 0.5})
    assert Halving("loss", 40).going_on(reached, 3) == [1]


def test_what_failed_or_is_no_number_does_not_go_on() -> None:
    halving = Halving("loss", 40)
    assert halving.going_on(_reached("loss", {0: math.nan, 1: 0.5}), 1) == [1]
    assert halving.going_on(_reached("loss", {0: math.nan}), 1) == []
    failed = PointResult(0, {}, {"loss_last": 0.1}, problem="does not fit")
    assert halving.going_on([failed, *_reached("loss", {1: 0.5})], 2) == [1]
