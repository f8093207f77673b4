"""Stacked bars with a limit, and bars along a time axis, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ipu_runtime.reports.axis import round_ticks
from ipu_runtime.reports.document import StackedBars, Timeline
from ipu_runtime.reports.markup import Html, joined, tag

_WIDTH = 920
_LEFT = 74
_ROW = 30
_BAR = 20
_AXIS = 26
_COLOURS = 8


def legend(names: Sequence[str]) -> Html:
    """Return the colours in order, each with its name."""
    items = []
    for index, name in enumerate(names):
        square = tag("rect", width=12, height=12, class_=f"f{index % _COLOURS}")
        mark = tag("svg", square, viewBox="0 0 12 12", aria_hidden="true")
        items.append(tag("span", mark, name))
    return tag("div", *items, class_="legend")


def stacked_bars(bars: StackedBars) -> Html:
    """Return a bar per row, its parts side by side, a dashed line at its limit."""
    rows, label = bars.rows, bars.show
    names = list(dict.fromkeys(name for row in rows for name in row.parts))
    largest = max(
        (max(sum(row.parts.values()), row.limit or 0.0) for row in rows), default=1.0
    )
    scale = (_WIDTH - _LEFT - 12) / (largest or 1.0)
    shapes: list[Html] = []
    for index, row in enumerate(rows):
        top = index * _ROW + (_ROW - _BAR) / 2
        shapes.append(_row_name(row.name, top))
        x = float(_LEFT)
        for name, value in row.parts.items():
            if value > 0:
                hint = f"{row.name}, {name}: {label(value)}"
                colour = names.index(name) % _COLOURS
                shapes.append(_bar(x, top, value * scale, colour, hint))
            x += value * scale
        if row.limit is not None:
            limit_x = _LEFT + row.limit * scale
            shapes.append(
                tag(
                    "line",
                    tag("title", f"{row.name}, capacity: {label(row.limit)}"),
                    x1=f"{limit_x:.1f}",
                    x2=f"{limit_x:.1f}",
                    y1=f"{top - 4:.1f}",
                    y2=f"{top + _BAR + 4:.1f}",
                    class_="limit",
                )
            )
    bottom = len(rows) * _ROW
    shapes.append(_axis(largest, scale, bottom, label, bars.tick_unit))
    drawing = _svg(shapes, bottom + _AXIS, bars.reading)
    return joined([legend(names), drawing])


def timeline_chart(timeline: Timeline) -> Html:
    """Return a row of bars per lane along a common axis of time."""
    rows, label = timeline.lanes, timeline.show
    scale = (_WIDTH - _LEFT - 12) / (timeline.total or 1.0)
    bottom = len(rows) * _ROW
    shapes = [_axis(timeline.total, scale, bottom, label)]
    for index, row in enumerate(rows):
        top = index * _ROW + (_ROW - _BAR) / 2
        shapes.append(_row_name(row.name, top))
        for task in row.tasks:
            x, width = _LEFT + task.start * scale, (task.end - task.start) * scale
            shapes.append(_bar(x, top, max(width, 0.4), task.kind, task.hint))
            if width > 7 * len(task.label) + 4:
                shapes.append(
                    tag(
                        "text",
                        task.label,
                        x=f"{x + width / 2:.1f}",
                        y=f"{top + 14:.1f}",
                        text_anchor="middle",
                        class_="on",
                        pointer_events="none",
                    )
                )
    drawing = _svg(shapes, bottom + _AXIS, timeline.reading)
    return joined([legend([name for _, name in timeline.legend]), drawing])


def _svg(shapes: Sequence[Html], height: float, title: str) -> Html:
    return tag(
        "svg", *shapes, viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=title
    )


def _row_name(name: str, top: float) -> Html:
    return tag(
        "text", name, x=_LEFT - 8, y=f"{top + 14:.1f}", text_anchor="end", class_="ink"
    )


def _bar(x: float, top: float, width: float, colour: int, tooltip: str) -> Html:
    return tag(
        "rect",
        tag("title", tooltip),
        x=f"{x:.2f}",
        y=f"{top:.1f}",
        width=f"{width:.2f}",
        height=_BAR,
        class_=f"f{colour % _COLOURS}",
    )


def _axis(
    largest: float,
    scale: float,
    bottom: float,
    label: Callable[[float], str],
    unit: float = 1.0,
) -> Html:
    shapes = []
    for tick in round_ticks(0.0, largest / unit, 6):
        x = f"{_LEFT + tick * unit * scale:.1f}"
        shapes.append(tag("line", x1=x, x2=x, y1=0, y2=bottom, class_="grid"))
        name = label(tick * unit)
        shapes.append(tag("text", name, x=x, y=bottom + 16, text_anchor="middle"))
    return joined(shapes)
