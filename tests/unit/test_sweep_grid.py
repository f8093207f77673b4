"""Grids: what is written, and which points it means."""

from __future__ import annotations

import pytest

from workbench.sweeps.sweep_grid import Axis, count_points, parse_grid, points
from workbench.sweeps.sweep_point import PointResult, ranked


def test_every_combination_is_a_point_and_the_last_axis_is_fastest() -> None:
    axes, problems = parse_grid(["data.batch_size=16,32", "stages=2,4,8"])

    assert problems == ()
    assert count_points(axes) == 6
    assert [tuple(point.values.values()) for point in points(axes)] == [
        ("16", "2"),
        ("16", "4"),
        ("16", "8"),
        ("32", "2"),
        ("32", "4"),
        ("32", "8"),
    ]


def test_commas_inside_lists_belong_to_the_value() -> None:
    (axis,), problems = parse_grid(["pipeline.stages=[0,0,1],[0,1,1]"])
    assert problems == ()
    assert axis == Axis("pipeline.stages", ("[0,0,1]", "[0,1,1]"))


def test_ranges_are_written_out() -> None:
    (axis,), _ = parse_grid(["train.epochs=1..3,8..14..3"])
    assert axis.values == ("1", "2", "3", "8", "11", "14")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "--grid: is missing"),
        (["data.batch_size"], "has no values"),
        (["data.batch_size="], "has no values"),
        (["data.batch_sze=1"], "unknown field; did you mean data.batch_size?"),
        (["stages=2", "stages=4"], "is given twice"),
        (["stages=two"], "'two' stages"),
        (["stages=0,2"], "'0' stages; use whole numbers from 1"),
        (["pipeline.stages=1,2"], "stages=1,2 for so many stages"),
        ([f"stages=2,{'9' * 5000}"], "9… stages; use whole numbers from 1"),
        (["train.epochs=1..2000000"], "too many"),
        (["train.epochs=" + ",".join(["1..999999"] * 100)], "too many"),
        (["train.epochs=1..2000", "stages=1..2000"], "too many"),
    ],
)
def test_a_wrong_grid_is_refused_with_its_reason(
    texts: list[str], message: str
) -> None:
    _, problems = parse_grid(texts)
    assert message in "; ".join(str(problem) for problem in problems)


def test_ranking_knows_which_way_is_better_and_leaves_out_bad_points() -> None:
    def result(index: int, value: float, problem: str = "") -> PointResult:
        metrics = {"samples_per_second": value, "ipu_step_us": value}
        return PointResult(index, {}, metrics, problem)

    results = [result(0, 2.0), result(1, 3.0), result(2, 9.0, "no"), result(3, 1.0)]

    assert [r.index for r in ranked(results, "samples_per_second")] == [1, 0, 3]
    assert [r.index for r in ranked(results, "ipu_step_us")] == [3, 0, 1]
    assert ranked(results, "loss_last") == []


def test_a_range_of_thousands_of_digits_is_one_value_that_no_field_takes() -> None:
    axes, problems = parse_grid([f"train.epochs=1..{'9' * 5000}"])
    assert problems or len(axes[0].values) == 1
