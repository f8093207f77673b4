"""The points of a sweep as a table that can be sorted, and as a map of two axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from textual.content import Content

from ipu_runtime.plan.quantities import (
    count,
    duration,
    four_decimals,
    microseconds,
    share,
)
from ipu_runtime.reports.document import BAD, GOOD, MARK, MUTED
from workbench.comparing.run_names import short_names
from workbench.sweeps.sweep_point import HIGHER_IS_BETTER, PointResult
from workbench.sweeps.sweep_record import SweepDefinition
from workbench.sweeps.sweep_surface import surface
from workbench.ui.widgets.row_list import Row
from workbench.views.cells import bar, cell_width, fit, wrapped
from workbench.views.content import StyledPart, line

_SHADES = "·░▒▓█"
_BAR = 6
_WIDEST_AXIS = 24


@dataclass(frozen=True, slots=True)
class Column:
    """A column: of an axis, or of a metric."""

    title: str
    key: str
    width: int
    show: Callable[[float], str] | None = None
    """How a metric is written; None for an axis."""

    def order(self, result: PointResult) -> tuple[bool, float, str]:
        """Return what to sort a point by, ascending; points without it come last."""
        if self.show is not None:
            value = result.metrics.get(self.key)
            sign = -1.0 if self.key in HIGHER_IS_BETTER else 1.0
            known = value is not None and not result.problem
            return (not known, sign * value if known and value is not None else 0.0, "")
        text = result.values[self.key]
        try:
            return False, float(text), ""
        except ValueError:
            return False, 0.0, text


def _memory(value: float) -> str:
    return f"{bar(value, _BAR)}{share(value):>6}"


_PLANNED = (
    Column("samples/s", "samples_per_second", 11, count),
    Column("per batch", "ipu_us_per_batch", 11, microseconds),
    Column("bubble", "bubble_fraction", 8, share),
    Column("memory", "memory_fraction", 14, _memory),
    Column("IPUs", "ipus", 6, count),
)
_TRAINED = (
    Column("loss", "loss_last", 9, four_decimals),
    Column("accuracy", "accuracy_last", 10, four_decimals),
    Column("on test", "test_accuracy", 9, four_decimals),
    Column("samples/s", "samples_per_second", 10, count),
    Column("time", "seconds", 10, duration),
)
_HALVED = (*_TRAINED[:-1], Column("epochs", "epochs", 8, count))
"""Of points that were stopped early it matters when."""


def sweep_columns(definition: SweepDefinition, width: int) -> tuple[Column, ...]:
    """Return the axes, then the metrics, the one that ranks first of them."""
    names = short_names([axis.path for axis in definition.axes])
    metrics: tuple[Column, ...] = _TRAINED if definition.trained else _PLANNED
    if definition.halving is not None:
        metrics = _HALVED
    widths = {
        axis.path: min(
            _WIDEST_AXIS, max(map(cell_width, (names[axis.path], *axis.values)))
        )
        for axis in definition.axes
    }
    room = width - 3
    if sum(widths.values()) + 2 * len(widths) + _width(metrics) > room:
        metrics = tuple(_narrow(column) for column in metrics)
        each = max(4, (room - _width(metrics)) // len(widths) - 2)
        widths = {path: min(each, wide) for path, wide in widths.items()}
    axes = (Column(names[path], path, wide + 2) for path, wide in widths.items())
    return (*axes, *metrics)


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns)


def _narrow(column: Column) -> Column:
    """Return a column for a small window; the bar of the memory goes first."""
    if column.key == "memory_fraction":
        return replace(column, width=8, show=share)
    return replace(column, width=10) if column is _PLANNED[0] else column


def heading(columns: Sequence[Column], sorted_by: int, reverse: bool) -> Content:
    """Return the titles, the sorted column marked."""
    parts: list[StyledPart] = ["   "]
    for place, column in enumerate(columns):
        mark = ("▲" if reverse else "▼") if place == sorted_by else ""
        right = column.show is not None
        # Names of axes keep a gap from the number beside them, as values do.
        text = fit(f"{column.title}{mark}", column.width - (not right), right=right)
        text += "" if right else " "
        parts.append((text, MARK if mark else MUTED))
    return line(*parts)


def sorted_points(
    results: Sequence[PointResult], column: Column, reverse: bool
) -> list[PointResult]:
    """Return the points in the order of a column, those that cannot run last."""
    good = sorted(
        (result for result in results if not result.problem),
        key=lambda result: (column.order(result), result.index),
    )
    wrong = sorted((r for r in results if r.problem), key=lambda r: r.index)
    return [*(reversed(good) if reverse else good), *wrong]


def point_rows(
    points: Sequence[PointResult], columns: Sequence[Column], best: PointResult | None
) -> list[Row]:
    """Return a row for every point; what cannot run says why."""
    return [
        Row(_line(point, columns, point is best), str(point.index)) for point in points
    ]


def _line(point: PointResult, columns: Sequence[Column], best: bool) -> Content:
    parts: list[StyledPart] = [(" * ", GOOD) if best else "   "]
    for column in columns:
        if column.show is None:
            parts.append(fit(point.values[column.key], column.width - 1) + " ")
        elif not point.problem:
            value = point.metrics.get(column.key)
            text = "-" if value is None else column.show(value)
            parts.append((f"{text:>{column.width}}", GOOD if best else ""))
    if point.problem:
        parts.append((point.problem, BAD))
    return line(*parts)


def sweep_map(
    results: Sequence[PointResult],
    definition: SweepDefinition,
    column: Column,
    width: int,
) -> list[Content]:
    """Return the metric over the two axes that change it most, darker is better."""
    found = surface(results, definition.axes, column.key)
    if found is None or column.show is None:
        return []
    names = short_names([axis.path for axis in definition.axes])
    show, down = column.show, found.down
    label = max(map(cell_width, (names[down.path], *down.values))) + 2
    if found.across is None:
        rows = [line((f"{column.title} by {names[down.path]}", MUTED))]
        room, most = min(60, width - label - 12), max(found.best.values())
        for value in down.values:
            good = found.share(value, "", column.key)
            reached = 0.0 if good is None else found.best[value, ""]
            style = GOOD if good == 1 else "$primary"
            length = bar(reached / most if most else 0.0, room)
            shown = "-" if good is None else show(reached)
            rows.append(line(fit(value, label), (length, style), f" {shown}"))
        return rows
    cell = 10
    across = found.across.values[: max(1, (width - label) // cell)]
    text = (
        f"{column.title} by {names[down.path]} (down) and "
        f"{names[found.across.path]} (across), best of all else; darker is better"
    )
    rows = [line((row, MUTED)) for row in wrapped(text, width)]
    rows.append(
        line(" " * label, *((f"{fit(v, cell - 1):>{cell}}", MUTED) for v in across))
    )
    for value in down.values:
        parts: list[StyledPart] = [fit(value, label)]
        for other in across:
            good = found.share(value, other, column.key)
            if good is None:
                parts.append((f"{'-':>{cell}}", MUTED))
                continue
            shade = _SHADES[round(good * (len(_SHADES) - 1))]
            number = show(found.best[value, other])[-(cell - 2) :]
            style = MARK if good == 1 else ""
            parts += [f"{number:>{cell - 2}}", (f" {shade}", style)]
        rows.append(line(*parts))
    return rows
