"""A chart of a run's curves: smoothing, log axes, a cursor with values, zoom."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.message import Message
from textual.widget import Widget

from ipu_runtime.plan.quantities import four_digits
from workbench.charts.plotting import Colour, Line, Plot, draw
from workbench.charts.points import next_level, smooth
from workbench.runs.describe import METRIC_WORDS, describe
from workbench.runs.series import Curve
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.widgets.plain import PlainText

_ZOOM_LEVELS = 6

_FRAME = 6
"""Cells of the border beside what stands in it."""


@dataclass(frozen=True, slots=True)
class NamedCurve:
    """A curve with the words that its values get."""

    name: str
    curve: Curve
    show: Callable[[float], str] = four_digits
    """How a value is written."""
    metric: str = ""
    """Name among `series.METRICS`, for the sentence that reads the curve."""
    variable: str = "primary"
    """Theme variable of its colour, unless `colour` is given."""
    colour: Colour = None
    marker: str = "braille"
    behind: Curve = Curve()  # noqa: RUF009
    """A second, faint curve, as a running mean is."""
    sign: str = ""
    """Stands on some of its points, for curves of several runs."""
    summary: str = ""
    """What the title says of it, instead of its newest value."""


def _nearest(xs: Sequence[float], x: float) -> int:
    """Return the place of the first point that is not before x, or the last."""
    return min(bisect_left(xs, x), len(xs) - 1)


class ChartView(PlainText, Widget, can_focus=True):
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

    class CursorMoved(Message):
        """The cursor stands at another place, or nowhere."""

        def __init__(self, chart: ChartView, x: float | None) -> None:
            super().__init__()
            self.chart, self.x = chart, x

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
        self._shown_title = ""
        self._own_unit = unit
        self._curves: Sequence[NamedCurve] = ()
        self._references: tuple[float, ...] = ()
        self._grow = True
        self.smoothing = 0.0
        self.log_x, self.log_y = False, log_y
        self._zoom = 0
        self._cursor: float | None = None
        self._drawn: tuple[object, Text] | None = None

    @property
    def curves(self) -> Sequence[NamedCurve]:
        """What it shows, as measured."""
        return self._curves

    @property
    def cursor(self) -> float | None:
        """Where the cursor stands; charts beside each other have one together."""
        return self._cursor

    @cursor.setter
    def cursor(self, x: float | None) -> None:
        if x != self._cursor:
            self._cursor = x
            self._changed()

    def retitle(self, title: str) -> None:
        """Show another quantity."""
        self._title = title

    def show_curves(
        self,
        curves: Sequence[NamedCurve],
        references: tuple[float, ...] = (),
        *,
        grow: bool = True,
        unit: str = "",
    ) -> None:
        """Show other curves, which may `grow`; dotted lines stand at the references."""
        self._curves, self._references, self._grow = curves, references, grow
        self._unit = unit or self._own_unit
        self._show_titles()
        if self.is_on_screen:
            # Here, not when the screen is put together: keys wait for either, not both.
            self.render()
        self.refresh()

    def _lines(self) -> tuple[Line, ...]:
        """Return what is drawn, faint curves first and thus behind the others."""
        faint, lines = [], []
        muted = self._theme_colour("secondary")
        for item in self._curves:
            colour = item.colour or self._theme_colour(item.variable)
            behind = item.curve if self.smoothing else item.behind
            if behind.xs:
                shown = self._shown(behind, 0.0)
                faint.append(Line(shown, muted, item.marker, faint=True))
            shown = self._shown(item.curve, self.smoothing)
            lines.append(Line(shown, colour, item.marker, sign=item.sign))
        return (*faint, *lines)

    def _shown(self, curve: Curve, smoothing: float) -> Curve:
        ys = smooth(curve.ys, smoothing)
        if not self._zoom or not curve.xs:
            return Curve(curve.xs, ys)
        span = (curve.xs[-1] - curve.xs[0]) / 2**self._zoom
        middle = self._cursor
        end = curve.xs[-1] if middle is None else middle + span / 2
        end = min(max(end, curve.xs[0] + span), curve.xs[-1])
        begin = bisect_left(curve.xs, end - span)
        stop = bisect_left(curve.xs, end) + 1
        return Curve(curve.xs[begin:stop], ys[begin:stop])

    def _longest(self) -> Curve:
        curves = (item.curve for item in self._curves)
        return max(curves, key=lambda curve: len(curve.xs), default=Curve())

    def render(self) -> Text:
        """Draw the curves, or the sentence that stands for them."""
        width, height = self.content_size
        if not any(item.curve.xs for item in self._curves):
            text = self._empty if self._grow else "nothing of it was reported"
            return Text(text, style="dim")
        if not any(math.isfinite(y) for item in self._curves for y in item.curve.ys):
            return Text(f"{self._title}: no report is a number", style="dim")
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
        units = {item.curve.unit for item in self._curves if item.curve.xs}
        plot = Plot(
            self._lines(),
            self._references,
            self._cursor,
            self.log_x,
            self.log_y,
            bool(getattr(self.app, "ascii_only", False)),
            self._theme_colour("secondary"),
            " or ".join(sorted(units)),
            self._broken(),
            self._theme_colour("error"),
        )
        return Text.from_ansi(draw(plot, width, height), no_wrap=True)

    def _broken(self) -> tuple[float, ...]:
        """Return where curves stop to be numbers."""
        found = (item.curve.first_broken for item in self._curves)
        return tuple(x for x in found if x is not None)

    def _theme_colour(self, variable: str) -> Colour:
        value = self.app.theme_variables.get(variable, "")
        if value.startswith("ansi_"):
            return value.removeprefix("ansi_").replace("bright_", "") or None
        return Color.parse(value).rgb if value else None

    def on_resize(self) -> None:
        """Say more where there is room for more."""
        self._show_titles()

    def _show_titles(self) -> None:
        newest = []
        for item in self._curves:
            if item.curve.ys:
                value = item.summary or item.show(item.curve.ys[-1])
                newest.append(f"{item.name} {value}".strip())
        view = [f"no number from {x:.3g} on" for x in self._broken()[:1]]
        view += [self._unit] if self._unit else []
        if self.smoothing:
            view.append(f"smoothed {self.smoothing:g}, dots: as reported")
        elif any(item.behind.xs for item in self._curves):
            view.append("dots: mean of the epoch")
        view += [
            f"log {axis}" for axis, on in (("y", self.log_y), ("x", self.log_x)) if on
        ]
        view += [f"zoom {2**self._zoom}x"] if self._zoom else []
        title = "  ".join([self._title, " · ".join(newest)]).strip()
        if title != self._shown_title:
            self.border_title = self._shown_title = title
        room = self.outer_size.width - _FRAME
        while len(view) > 1 and len(", ".join(view)) > room:
            view.pop()
        subtitle = self.reading or ", ".join(view)
        if subtitle != (self.border_subtitle or ""):
            self.border_subtitle = subtitle

    @property
    def reading(self) -> str:
        """What stands under the cursor; empty without one."""
        x, longest = self._cursor, self._longest()
        if x is None or not longest.xs:
            return ""
        parts = []
        for item in self._curves:
            if item.curve.xs:
                place = _nearest(item.curve.xs, x)
                value = smooth(item.curve.ys, self.smoothing)[place]
                parts.append(f"{item.name} {item.show(value)}".strip())
                if item.behind.xs:
                    mean = item.behind.ys[_nearest(item.behind.xs, x)]
                    parts.append(f"epoch's mean {item.show(mean)}")
        text = f"{x:.3f}: {', '.join(parts)}"
        # The axis names the unit too, and the values must not be cut.
        roomy = len(longest.unit) + 1 + len(text) <= self.outer_size.width - _FRAME
        return f"{longest.unit} {text}" if roomy else text

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
        xs = self._longest().xs
        count = len(xs)
        if not count:
            return
        stride = max(1, round(count / max(1, self.content_size.width) / 2**self._zoom))
        place = count - 1
        if self._cursor is not None:
            place = _nearest(xs, self._cursor) + step * stride
        self._put_cursor(xs[min(max(place, 0), count - 1)])

    def _put_cursor(self, x: float | None) -> None:
        self.cursor = x
        self.post_message(self.CursorMoved(self, x))

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
        self._zoom = 0
        self._put_cursor(None)
        self._changed()

    def action_chart_maximise(self) -> None:
        """Give the chart the whole area, or all charts again."""
        self.post_message(self.Maximised(self))
