"""Successive halving: what a budget buys, and which points go on."""

from __future__ import annotations

import math

import pytest

from workbench.sweeps.halving import Halving, going_on


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


@pytest.mark.parametrize(
    ("objective", "kept"), [("accuracy", [4, 1, 3]), ("loss", [0, 5, 2])]
)
def test_the_better_half_goes_on_best_first(objective: str, kept: list[int]) -> None:
    values = {0: 0.1, 1: 0.8, 2: 0.3, 3: 0.7, 4: 0.9, 5: 0.2}
    assert going_on(values, objective, 6) == kept
    backwards = dict(reversed(values.items()))
    assert going_on(backwards, objective, 6) == kept
    assert going_on(values, objective, 2) == kept[:2]


def test_what_is_no_number_does_not_go_on() -> None:
    assert going_on({0: math.nan, 1: 0.5}, "loss", 1) == [1]
    assert going_on({0: math.nan}, "loss", 1) == []
