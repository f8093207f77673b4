"""Curves as text: smoothing, thinning, drawing and reading."""

from __future__ import annotations

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.charts.plotting import Line, Plot, draw, log_ticks
from workbench.charts.points import LEVELS, next_level, smooth, thin
from workbench.runs.describe import describe
from workbench.runs.series import Curve

numbers = st.floats(-1e6, 1e6)
FALLING = Curve(
    tuple(float(x) for x in range(1, 101)),
    tuple(100.0 / x for x in range(1, 101)),
)


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_smoothing_begins_at_the_first_value() -> None:
    assert smooth([4.0, 8.0], 0.5) == (4.0, pytest.approx(20 / 3))


@given(st.lists(numbers, min_size=1), st.sampled_from(LEVELS))
def test_smoothed_values_stay_inside_the_measured_range(
    values: list[float], weight: float
) -> None:
    slack = 1e-6 * max(1.0, max(map(abs, values)))
    for value in smooth(values, weight):
        assert min(values) - slack <= value <= max(values) + slack


def test_levels_stop_at_both_ends() -> None:
    assert next_level(LEVELS[-1], 1) == LEVELS[-1]
    assert next_level(0.0, -1) == 0.0
    assert next_level(0.0, 1) == LEVELS[1]


@given(st.lists(numbers, min_size=1, max_size=300), st.integers(4, 50))
def test_thinning_keeps_ends_and_extremes(ys: list[float], points: int) -> None:
    curve = Curve(tuple(float(x) for x in range(len(ys))), tuple(ys))
    thinned = thin(curve, points)
    assert len(thinned.xs) <= max(points, len(ys) if len(ys) <= points else points)
    assert thinned.xs[0] == curve.xs[0]
    assert thinned.xs[-1] == curve.xs[-1]
    assert max(thinned.ys) == max(ys)
    assert min(thinned.ys) == min(ys)
    assert list(thinned.xs) == sorted(thinned.xs)


@pytest.mark.parametrize(("log_x", "log_y"), [(False, False), (True, True)])
def test_chart_has_exactly_its_size(log_x: bool, log_y: bool) -> None:
    chart = Plot((Line(FALLING),), (5.0,), 50.0, log_x, log_y)
    lines = plain(draw(chart, 60, 12))
    assert len(lines) == 12
    assert {len(line) for line in lines} == {60}


def test_curve_falls_on_the_screen_when_its_values_fall() -> None:
    lines = plain(draw(Plot((Line(FALLING, marker="#"),), ascii_only=True), 60, 12))
    first = next(i for i, line in enumerate(lines) if "*" in line)
    last = max(i for i, line in enumerate(lines) if "*" in line)
    assert lines[first].index("*") < lines[last].index("*")


def test_straight_line_is_straight_on_log_axes() -> None:
    chart = Plot((Line(FALLING, marker="#"),), log_x=True, log_y=True, ascii_only=True)
    lines = [line for line in plain(draw(chart, 60, 12))[:-2]]
    middles = [
        (line.index("*") + line.rindex("*")) / 2 for line in lines if "*" in line
    ]
    steps = [later - earlier for earlier, later in itertools.pairwise(middles)]
    assert max(steps) - min(steps) <= 3


def test_ascii_chart_has_plain_characters_only() -> None:
    chart = Plot((Line(FALLING),), (5.0,), 50.0, ascii_only=True)
    assert "".join(plain(draw(chart, 60, 12))).isascii()


@pytest.mark.parametrize(
    "curve",
    [
        Curve(),
        Curve((1.0,), (2.0,)),
        Curve((1.0, 2.0), (3.0, 3.0)),
        Curve((1.0, 2.0), (math.nan, 1.0)),
        Curve((0.0, 1.0), (0.0, -1.0)),
        Curve((1.0, 2.0), (math.inf, 1.0)),
    ],
)
@pytest.mark.parametrize("log", [False, True])
def test_odd_curves_are_drawn_too(curve: Curve, log: bool) -> None:
    chart = Plot((Line(curve),), (0.5,), 1.0, log, log)
    assert len(plain(draw(chart, 40, 8))) == 8


def test_log_ticks_lie_inside_and_are_round() -> None:
    assert log_ticks(0.15, 30.0, 10) == pytest.approx([0.2, 0.5, 1, 2, 5, 10, 20])


def test_reading_of_a_falling_loss() -> None:
    curve = Curve((0.5, 1.0, 1.5, 2.0), (2.0, 1.0, 0.5, 0.25))
    assert describe("loss", curve) == (
        "The loss fell from 2 to 0.25 over 2 epochs; lowest 0.25 at epoch 2; "
        "still falling."
    )


@pytest.mark.parametrize(
    ("values", "path", "end"),
    [
        ((2.0, 1.0, 0.5), "fell from 2 to 0.5", "still falling"),
        ((2.3, 2.9, 2.6), "rose from 2.3 to 2.6", "falling at the end"),
        ((2.3, 1.2, 1.5), "fell from 2.3 to 1.5", "rising at the end"),
        ((1.0, 0.5, 1.0), "began and ended at 1", "rising at the end"),
        ((1.0, 1.0, 1.0), "stayed at 1", "flat at the end"),
    ],
)
def test_a_reading_does_not_contradict_itself(
    values: tuple[float, ...], path: str, end: str
) -> None:
    reading = describe("loss", Curve((1.0, 2.0, 3.0), values))
    assert path in reading
    assert reading.endswith(f"; {end}.")


def test_reading_of_a_curve_without_points() -> None:
    assert describe("accuracy", Curve()) == "No accuracy yet."
    assert describe("host_ms_per_batch", Curve((1.0,), (15.0,))) == (
        "The measured time per batch is 15 ms at its only point."
    )
