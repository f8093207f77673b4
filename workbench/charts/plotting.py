"""Charts as text: curves in, lines with colour codes out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.reports.axis import round_ticks
from ipu_runtime.reports.document import Chart
from ipu_runtime.reports.plain_text import without_terminal_codes
from workbench.charts.points import thin
from workbench.runs.series import Curve

Colour = tuple[int, int, int] | str | None
"""Red, green, blue; or a name of the terminal's palette; or the terminal's own."""

MARKERS = ("●", "▲", "■", "◆", "+", "%")
"""Of several curves in text."""
_TEXT_HEIGHT = 14
_POINTS_PER_COLUMN = 2
_ROOM_FOR_LABEL = 8
_SIGNS = 4
_ASCII_MARKERS = {
    "braille": "*",
    "dot": ".",
    "●": "o",
    "▲": "^",
    "■": "#",
    "◆": "x",
    "+": "+",
    "%": "%",
}
_TO_ASCII = str.maketrans("│─┌┐└┘├┤┬┴┼", "|-+++++++++")


@dataclass(frozen=True, slots=True)
class Line:
    """One curve of a plot."""

    curve: Curve
    colour: Colour = None
    marker: str = "braille"
    faint: bool = False
    """Whether it stands behind the others: points that no stroke connects."""
    sign: str = ""
    """Stands on some of its points, so that it is known without colours."""


@dataclass(frozen=True, slots=True)
class Plot:
    """What to draw, without its size."""

    lines: tuple[Line, ...]
    references: tuple[float, ...] = ()
    """Heights of dotted lines, for example a document's own figures."""
    cursor: float | None = None
    """Where a vertical line stands."""
    log_x: bool = False
    log_y: bool = False
    ascii_only: bool = False
    axis_colour: Colour = None
    x_label: str = ""
    broken: tuple[float, ...] = ()
    """Where values begin that are no numbers."""
    broken_colour: Colour = None


def load_plotext() -> Any:
    """Load the drawing library: 80 ms, which no command without a chart should pay."""
    import plotext

    return plotext


def draw(plot: Plot, width: int, height: int) -> str:
    """Return the chart as `height` lines of `width` cells with colour codes."""
    plotext = load_plotext()
    plotext.clear_figure()
    plotext.limit_size(False, False)
    plotext.plot_size(width, height)
    plotext.theme("clear")
    plotext.canvas_color("default")
    plotext.axes_color("default")
    if plot.axis_colour is not None:
        plotext.ticks_color(plot.axis_colour)
    plotext.frame(False)
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    lines = [_drawable(line, plot, width) for line in plot.lines]
    lines = [line for line in lines if line.curve.xs]
    if lines:
        _set_axes(plotext, plot, lines, width, height)
        _draw_references(plotext, plot, lines, width)
        _draw_broken(plotext, plot, lines, height)
        if plot.cursor is not None and (plot.cursor > 0 or not plot.log_x):
            position = _scale(plot.cursor, plot.log_x)
            plotext.vertical_line(position, color=plot.axis_colour)
    for line in lines:
        if plot.ascii_only:
            marker = "." if line.faint else _plain(line.sign or line.marker)
        else:
            marker = line.marker
        connected = len(line.curve.xs) > 1 and not line.faint
        stroke = plotext.plot if connected else plotext.scatter
        xs, ys = list(line.curve.xs), list(line.curve.ys)
        stroke(xs, ys, marker=marker, color=line.colour)
    signed = [line for line in lines if line.sign]
    for place, line in enumerate(signed):
        sign = _plain(line.sign) if plot.ascii_only else line.sign
        xs, ys = _signed_points(line.curve, place / len(signed))
        plotext.scatter(xs, ys, marker=sign, color=line.colour)
    text: str = plotext.build()
    return text.translate(_TO_ASCII) if plot.ascii_only else text


def _plain(marker: str) -> str:
    return _ASCII_MARKERS.get(marker, "*")


def _signed_points(curve: Curve, offset: float) -> tuple[list[float], list[float]]:
    """Return a few points of a curve; another offset gives others."""
    last = len(curve.xs) - 1
    places = {round((part + offset) / _SIGNS * last) for part in range(_SIGNS)}
    return [curve.xs[at] for at in places], [curve.ys[at] for at in places]


def _scale(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def _drawable(line: Line, plot: Plot, width: int) -> Line:
    points = [
        (_scale(x, plot.log_x), _scale(y, plot.log_y))
        for x, y in zip(line.curve.xs, line.curve.ys, strict=True)
        if math.isfinite(y) and (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)
    ]
    curve = Curve(tuple(x for x, _ in points), tuple(y for _, y in points))
    return replace(line, curve=thin(curve, max(4, _POINTS_PER_COLUMN * width)))


def _set_axes(
    plotext: Any, plot: Plot, lines: list[Line], width: int, height: int
) -> None:
    xs = [x for line in lines for x in (line.curve.xs[0], line.curve.xs[-1])]
    xs += _broken(plot)
    ys = [y for line in lines for y in line.curve.ys] + _references(plot)
    low, high = _widened(min(xs), max(xs))
    positions, labels = _ticks(low, high, plot.log_x, max(2, width // 14))
    plotext.xlim(low, high)
    plotext.xticks(positions, labels)
    if plot.x_label and height >= _ROOM_FOR_LABEL:
        plotext.xlabel(plot.x_label)
    low, high = _widened(min(ys), max(ys))
    positions, labels = _ticks(low, high, plot.log_y, max(2, height // 3))
    plotext.ylim(min(low, positions[0]), max(high, positions[-1]))
    plotext.yticks(positions, labels)


def _widened(low: float, high: float) -> tuple[float, float]:
    if low < high:
        return low, high
    margin = abs(low) * 0.1 or 1.0
    return low - margin, high + margin


def _ticks(
    low: float, high: float, log: bool, count: int
) -> tuple[list[float], list[str]]:
    if not log:
        ticks = round_ticks(low, high, count)
        return ticks, [tick_label(tick) for tick in ticks]
    ticks = log_ticks(10.0**low, 10.0**high, count)
    return [math.log10(tick) for tick in ticks], [tick_label(tick) for tick in ticks]


def _references(plot: Plot) -> list[float]:
    usable = [y for y in plot.references if y > 0 or not plot.log_y]
    return [_scale(y, plot.log_y) for y in usable]


def _draw_references(plotext: Any, plot: Plot, lines: list[Line], width: int) -> None:
    begin = min(line.curve.xs[0] for line in lines)
    end = max(line.curve.xs[-1] for line in lines)
    count = max(2, width // 3)
    xs = [begin + (end - begin) * index / count for index in range(count + 1)]
    marker = "." if plot.ascii_only else "·"
    for y in _references(plot):
        plotext.scatter(xs, [y] * len(xs), marker=marker, color=plot.axis_colour)


def _broken(plot: Plot) -> list[float]:
    usable = [x for x in plot.broken if x > 0 or not plot.log_x]
    return [_scale(x, plot.log_x) for x in usable]


def _draw_broken(plotext: Any, plot: Plot, lines: list[Line], height: int) -> None:
    """Draw a column of crosses where a curve ends because it has no numbers."""
    ys = [y for line in lines for y in line.curve.ys] + _references(plot)
    low, high = _widened(min(ys), max(ys))
    count = max(2, height // 2)
    column = [low + (high - low) * index / count for index in range(count + 1)]
    marker = "x" if plot.ascii_only else "✗"
    for x in _broken(plot):
        colour = plot.broken_colour
        plotext.scatter([x] * len(column), column, marker=marker, color=colour)


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` numbers of a range, evenly spaced by their ratio."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    candidates = [
        mantissa * 10.0**power
        for power in range(begin, end + 1)
        for mantissa in (1, 2, 5)
    ]
    inside = [tick for tick in candidates if low * 0.999 <= tick <= high * 1.001]
    stride = max(1, math.ceil(len(inside) / max(1, count)))
    return inside[::stride] or [low, high]


def tick_label(value: float) -> str:
    """Return a number in at most about five characters."""
    size = abs(value)
    if size >= 1e12:
        return f"{value:.1e}".replace("e+", "e")
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{value / divisor:.3g}{unit}"
    return "0" if size < 1e-12 else f"{value:.4g}"


def curves(chart: Chart, width: int, *, ascii_only: bool = False) -> list[str]:
    """Return a chart as lines without colours; several curves are told by signs."""
    drawn = [series for series in chart.series if not series.dots]
    lines = tuple(
        Line(
            Curve(series.xs, series.ys),
            marker=MARKERS[at % len(MARKERS)] if len(drawn) > 1 else "braille",
        )
        for at, series in enumerate(drawn)
    )
    text = draw(Plot(lines, ascii_only=ascii_only), width, _TEXT_HEIGHT)
    names = [
        f"{_plain(line.marker) if ascii_only else line.marker} {series.name}"
        for line, series in zip(lines, drawn, strict=True)
        if len(drawn) > 1
    ]
    rows = without_terminal_codes(text).splitlines()
    return [*names, *(row.rstrip() for row in rows)]
