"""The two axes of a sweep that matter most, with the best of everything else."""

from __future__ import annotations

from workbench.sweeps.sweep_grid import Axis
from workbench.sweeps.sweep_point import PointResult
from workbench.sweeps.sweep_surface import surface

AXES = (Axis("a", ("1", "2")), Axis("b", ("1", "2")), Axis("c", ("1", "2")))


def _point(index: int, a: int, b: int, c: int, problem: str = "") -> PointResult:
    rate = 100.0 * c + 10.0 * b + 1.0 * a
    values = {"a": str(a), "b": str(b), "c": str(c)}
    metrics = {"samples_per_second": rate, "ipu_step_us": 1000.0 - rate}
    return PointResult(index, values, metrics, problem)


POINTS = [
    _point(number, 1 + number // 4, 1 + number // 2 % 2, 1 + number % 2)
    for number in range(8)
]


def test_the_axes_that_change_most_are_chosen_and_the_third_is_at_its_best() -> None:
    found = surface(POINTS, AXES, "samples_per_second")
    assert found is not None
    assert (found.down.path, found.across and found.across.path) == ("c", "b")
    assert found.best == {
        ("1", "1"): 112.0, ("1", "2"): 122.0, ("2", "1"): 212.0, ("2", "2"): 222.0,
    }  # fmt: skip
    assert found.share("2", "2", "samples_per_second") == 1.0
    assert found.share("1", "1", "samples_per_second") == 0.0


def test_of_times_the_shortest_is_best() -> None:
    found = surface(POINTS, AXES, "ipu_step_us")
    assert found is not None
    assert found.best["2", "2"] == 778.0
    assert found.share("2", "2", "ipu_step_us") == 1.0


def test_points_that_cannot_run_do_not_count() -> None:
    assert surface([_point(0, 1, 1, 1, "wrong")], AXES, "samples_per_second") is None
    assert surface([], AXES, "samples_per_second") is None
