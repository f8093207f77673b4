"""Curves with axes, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.reports.axis import round_ticks
from ipu_runtime.reports.document import Chart, Series
from ipu_runtime.reports.markup import Html, tag

_WIDTH, _HEIGHT = 920, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 10, 40
_MOST_TOOLTIPS = 60


def line_chart(chart: Chart) -> Html:
    """Return curves over a common pair of axes."""
    lines = chart.series
    points = [p for line in lines for p in _points(line) if p[1] - p[1] == 0]
    if not points:
        return tag("p", "No points.", class_="faint")
    x_low, x_high = _range([x for x, _ in points])
    y_low, y_high = _range([y for _, y in points])
    y_low = min(y_low, 0.0) if chart.zero else y_low

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low)
        up = (y - y_low) / (y_high - y_low)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    shapes: list[Html] = []
    unit = chart.tick_unit
    for tick in round_ticks(y_low / unit, y_high / unit, 5):
        _, y = place(x_low, tick * unit)
        shapes.append(_rule(_LEFT, _WIDTH - _RIGHT, y, y, "grid"))
        shapes.append(_text(chart.show(tick * unit), _LEFT - 8, y + 4, "end"))
    for tick in round_ticks(x_low, x_high, 8):
        x, _ = place(tick, y_low)
        shapes.append(_rule(x, x, _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM + 4, "axis"))
        shapes.append(_text(f"{tick:g}", x, _HEIGHT - _BOTTOM + 18, "middle"))
    base = _HEIGHT - _BOTTOM
    shapes.append(_rule(_LEFT, _WIDTH - _RIGHT, base, base, "axis"))
    shapes.append(_text(chart.x_title, (_LEFT + _WIDTH) / 2, _HEIGHT - 4, "middle"))
    for line in lines:
        colour, points = line.colour % 8, _points(line)
        for run in () if line.dots else _unbroken(points):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*p) for p in run))
            if line.filled:
                begin, end = place(*run[0])[0], place(*run[-1])[0]
                below = f"{begin:.1f},{base:.1f} {path} {end:.1f},{base:.1f}"
                shapes.append(tag("polygon", points=below, class_=f"area f{colour}"))
            shapes.append(tag("polyline", points=path, class_=f"line s{colour}"))
        stride = 1 if line.dots else max(1, len(points) // _MOST_TOOLTIPS)
        for at, point in list(enumerate(points))[::stride]:
            if point[1] - point[1] != 0:
                continue
            x, y = place(*point)
            where = f"{chart.x_title} {point[0]:.4g}"
            hint = f"{line.name}: {chart.show(point[1])} at {where}"
            if line.hints:
                hint += f", {line.hints[at]}"
            shapes.append(
                tag(
                    "circle",
                    tag("title", hint),
                    cx=f"{x:.1f}",
                    cy=f"{y:.1f}",
                    r=3.5 if line.dots else 6,
                    class_=f"f{colour}",
                    opacity=None if line.dots else 0,
                )
            )
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", *shapes, viewBox=box, role="img", aria_label=chart.title)


def _points(line: Series) -> list[tuple[float, float]]:
    return list(zip(line.xs, line.ys, strict=True))


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    if low == high:
        margin = abs(low) * 0.1 or 1.0
        return low - margin, high + margin
    return low, high


def _unbroken(
    points: Sequence[tuple[float, float]],
) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point[1] - point[1] == 0:
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _rule(x1: float, x2: float, y1: float, y2: float, style: str) -> Html:
    places = {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
    return tag("line", **{k: f"{v:.1f}" for k, v in places.items()}, class_=style)


def _text(text: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)
