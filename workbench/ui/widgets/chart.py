"""A chart of a run's curves: smoothing, log axes, a cursor with values, zoom."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.message import Message
from textual.widget import Widget

from workbench.core.describe import METRIC_WORDS, describe, figure
from workbench.core.plotting import Chart, Colour, Line, draw
from workbench.core.series import Curve
from workbench.core.smoothing import next_level, smooth
from workbench.ui.actions import Scope, bindings_for

_ZOOM_LEVELS = 6


@dataclass(frozen=True, slots=True)
class NamedCurve:
    """A curve with the words that its values get."""

    name: str
    curve: Curve
    show: Callable[[float], str] = figure
    """How a value is written."""
    metric: str = ""
    """Name among `series.METRICS`, for the sentence that reads the curve."""
    variable: str = "primary"
    """Theme variable of its colour, unless `colour` is given."""
    colour: Colour = None
    marker: str = "braille"


class ChartView(Widget, can_focus=True):
    """Draws curves again only when they, the size or the view have changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.CHART),
        Binding("escape", "whole_view", "Whole view", show=False),
    ]

    class Maximised(Message):
        """The chart is to have the whole area, or to give it back."""

        def __init__(self, chart: ChartView) -> None:
            super().__init__()
            self.chart = chart

    def __init__(
        self,
        title: str,
        *,
        log_y: bool = False,
        unit: str = "",
        empty: str = "",
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id, classes="panel")
        self._title, self._unit, self._empty = title, unit, empty
        self._curves: Sequence[NamedCurve] = ()
        self._references: tuple[float, ...] = ()
        self.smoothing = 0.0
        self.log_x, self.log_y = False, log_y
        self._zoom = 0
        self._cursor: int | None = None
        self._drawn: tuple[object, Text] | None = None

    @property
    def curves(self) -> Sequence[NamedCurve]:
        """What it shows, as measured."""
        return self._curves

    def retitle(self, title: str) -> None:
        """Show another quantity."""
        self._title = title

    def show_curves(
        self, curves: Sequence[NamedCurve], references: tuple[float, ...] = ()
    ) -> None:
        """Show other curves; dotted lines stand at the reference values."""
        self._curves, self._references = curves, references
        self._show_titles()
        self.refresh()

    def _shown_curves(self) -> list[NamedCurve]:
        return [replace(item, curve=self._shown(item.curve)) for item in self._curves]

    def _shown(self, curve: Curve) -> Curve:
        ys = smooth(curve.ys, self.smoothing)
        if not self._zoom or not curve.xs:
            return Curve(curve.xs, ys)
        span = (curve.xs[-1] - curve.xs[0]) / 2**self._zoom
        middle = self._cursor_x
        end = curve.xs[-1] if middle is None else middle + span / 2
        end = min(max(end, curve.xs[0] + span), curve.xs[-1])
        begin = bisect_left(curve.xs, end - span)
        stop = bisect_left(curve.xs, end) + 1
        return Curve(curve.xs[begin:stop], ys[begin:stop])

    @property
    def _cursor_x(self) -> float | None:
        longest = self._longest()
        if self._cursor is None or not longest:
            return None
        return longest[min(self._cursor, len(longest) - 1)]

    def _longest(self) -> tuple[float, ...]:
        return max((item.curve.xs for item in self._curves), key=len, default=())

    def render(self) -> Text:
        """Draw the curves, or the sentence that stands for them."""
        width, height = self.content_size
        if not any(item.curve.xs for item in self._curves):
            return Text(self._empty, style="dim")
        if width < 12 or height < 4:
            return Text("")
        state = (
            tuple((id(item.curve), len(item.curve.xs)) for item in self._curves),
            tuple(item.curve.ys[-1:] for item in self._curves),
            self._references, width, height, self.smoothing, self.log_x, self.log_y,
            self._zoom, self._cursor, self.app.theme,
        )  # fmt: skip
        if self._drawn is None or self._drawn[0] != state:
            self._drawn = (state, self._draw(width, height))
        return self._drawn[1]

    def _draw(self, width: int, height: int) -> Text:
        lines = tuple(
            Line(
                item.curve,
                item.colour or self._theme_colour(item.variable),
                item.marker,
            )
            for item in self._shown_curves()
        )
        chart = Chart(
            lines,
            self._references,
            self._cursor_x,
            self.log_x,
            self.log_y,
            bool(getattr(self.app, "ascii_only", False)),
            self._theme_colour("secondary"),
        )
        return Text.from_ansi(draw(chart, width, height), no_wrap=True)

    def _theme_colour(self, variable: str) -> Colour:
        value = self.app.theme_variables.get(variable, "")
        if value.startswith("ansi_"):
            return value.removeprefix("ansi_").replace("bright_", "") or None
        return Color.parse(value).rgb if value else None

    def _show_titles(self) -> None:
        newest = []
        for item in self._curves:
            if item.curve.ys:
                newest.append(f"{item.name} {item.show(item.curve.ys[-1])}".strip())
        view = [self._unit] if self._unit else []
        view += [f"smoothed {self.smoothing:g}"] if self.smoothing else []
        view += [
            f"log {axis}" for axis, on in (("y", self.log_y), ("x", self.log_x)) if on
        ]
        view += [f"zoom {2**self._zoom}x"] if self._zoom else []
        title = "  ".join([self._title, " · ".join(newest)]).strip()
        if title != self.border_title:
            self.border_title = title
        subtitle = self.reading or ", ".join(view)
        if subtitle != (self.border_subtitle or ""):
            self.border_subtitle = subtitle

    @property
    def reading(self) -> str:
        """What stands under the cursor; empty without one."""
        x = self._cursor_x
        if x is None:
            return ""
        parts = []
        for item in self._curves:
            if item.curve.xs:
                place = min(bisect_left(item.curve.xs, x), len(item.curve.xs) - 1)
                value = smooth(item.curve.ys, self.smoothing)[place]
                parts.append(f"{item.name} {item.show(value)}".strip())
        return f"epoch {x:.3f}: {', '.join(parts)}"

    @property
    def sentence(self) -> str:
        """What the curves show, in words."""
        known = [item for item in self._curves if item.metric in METRIC_WORDS]
        return " ".join(describe(item.metric, item.curve) for item in known)

    def _changed(self) -> None:
        self._show_titles()
        self.refresh()

    def action_chart_smoother(self) -> None:
        """Average over more points."""
        self.smoothing = next_level(self.smoothing, 1)
        self._changed()

    def action_chart_rougher(self) -> None:
        """Average over fewer points."""
        self.smoothing = next_level(self.smoothing, -1)
        self._changed()

    def action_chart_log_y(self) -> None:
        """Change between linear and logarithmic height."""
        self.log_y = not self.log_y
        self._changed()

    def action_chart_log_x(self) -> None:
        """Change between linear and logarithmic width."""
        self.log_x = not self.log_x
        self._changed()

    def action_chart_cursor_left(self) -> None:
        """Read the value before."""
        self._move_cursor(-1)

    def action_chart_cursor_right(self) -> None:
        """Read the value after."""
        self._move_cursor(1)

    def _move_cursor(self, step: int) -> None:
        count = len(self._longest())
        if not count:
            return
        stride = max(1, round(count / max(1, self.content_size.width) / 2**self._zoom))
        start = count - 1 if self._cursor is None else self._cursor + step * stride
        self._cursor = min(max(start, 0), count - 1)
        self._changed()

    def action_chart_zoom_in(self) -> None:
        """Show a shorter piece."""
        self._zoom = min(self._zoom + 1, _ZOOM_LEVELS)
        self._changed()

    def action_chart_zoom_out(self) -> None:
        """Show a longer piece."""
        self._zoom = max(self._zoom - 1, 0)
        self._changed()

    def action_whole_view(self) -> None:
        """Show everything without a cursor; a second time give the area back."""
        if self._cursor is None and not self._zoom:
            self.post_message(self.Maximised(self))
        self._cursor, self._zoom = None, 0
        self._changed()

    def action_chart_maximise(self) -> None:
        """Give the chart the whole area, or all charts again."""
        self.post_message(self.Maximised(self))
