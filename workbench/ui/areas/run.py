"""Run: progress, curves, epochs, log and verdict of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.widget import Widget

from workbench.core.experiment_spec import Figure
from workbench.core.quantities import microseconds
from workbench.core.run_monitor import RunMonitor
from workbench.core.series import Curve
from workbench.core.validation import validate
from workbench.core.verdict import figures_in
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.run_tables import (
    empty_run,
    epoch_table,
    log_lines,
    progress_line,
    verdict_lines,
)
from workbench.ui.widgets.chart import ChartView, NamedCurve
from workbench.ui.widgets.flow_text import FlowText

_PANELS = ("#chart-loss", "#chart-accuracy", "#chart-step", "#epochs-panel")
_LOG_LOW, _LOG_TALL = 1, 4


class RunArea(Area):
    """Four panels; small windows show one at a time."""

    SCOPE: ClassVar[Scope] = Scope.RUN
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.RUN),
        Binding("tab", "panel(1)", "Next chart", show=False),
        Binding("shift+tab", "panel(-1)", "Chart before", show=False),
        Binding("space", "mark_viewed", "Mark for comparison", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        # Kept, because timers reach them even while the app closes.
        self._progress = FlowText(id="run-progress")
        self._verdict = FlowText(id="run-verdict")
        self._epochs = FlowText(id="epochs")
        self._log = FlowText(id="run-log")
        self._charts = {
            "loss": ChartView("loss", empty="the loss grows here", id="chart-loss"),
            "accuracy": ChartView(
                "accuracy", empty="the accuracy grows here", id="chart-accuracy"
            ),
            "step": ChartView(
                "step",
                log_y=True,
                unit="ms",
                empty="measured and modelled step time grow here",
                id="chart-step",
            ),
        }
        self._panel = 0
        self._maximised = False
        self._shown: tuple[int, int] | None = None
        self._waiting_charts: list[str] = []

    def compose(self) -> ComposeResult:
        """Build the panels."""
        yield self._progress
        yield self._verdict
        with Grid(id="run-panels"):
            yield from self._charts.values()
            with VerticalScroll(
                self._epochs, id="epochs-panel", classes="panel", can_focus=True
            ) as panel:
                panel.border_title = "epochs"
        yield self._log

    def on_resize(self) -> None:
        """Small windows show one panel."""
        self._arrange()
        self.call_after_refresh(self.refresh_area)

    @property
    def _single(self) -> bool:
        size = self.app.size
        return self._maximised or size.width < 110 or size.height < 34

    def _arrange(self) -> None:
        single = self._single
        self.query_one("#run-panels").set_class(single, "-single")
        for index, panel in enumerate(_PANELS):
            self.query_one(panel).display = not single or index == self._panel

    def action_panel(self, step: int) -> None:
        """Go to the next panel."""
        self._panel = (self._panel + step) % len(_PANELS)
        self._arrange()
        self.screen.set_focus(self.query_one(_PANELS[self._panel]))

    def on_descendant_focus(self) -> None:
        """Remember which panel has the focus."""
        for index, panel in enumerate(_PANELS):
            if self.query_one(panel).has_focus:
                self._panel = index

    @on(ChartView.Maximised)
    def _maximise(self, event: ChartView.Maximised) -> None:
        event.stop()
        self._maximised = not self._maximised
        self._arrange()
        event.chart.focus()

    def focus_target(self) -> Widget:
        """The panel that was looked at last."""
        return self.query_one(_PANELS[self._panel])

    @property
    def footer_scopes(self) -> tuple[Scope, ...]:
        """Keys of the run and of the chart."""
        monitor = self.workbench.viewed_run
        if monitor is not None and monitor.live:
            return (Scope.CHART,)
        return (Scope.RUN, Scope.CHART)

    def refresh_area(self) -> None:
        """Show the run that is looked at."""
        self._shown = None
        self.refresh_run()

    def refresh_run(self) -> None:
        """Show what has come since."""
        workbench = self.workbench
        monitor = workbench.viewed_run
        if monitor is None:
            self._progress.show(lambda width: empty_run())
            return
        self._progress.show(lambda width: progress_line(monitor, width))
        state = (id(monitor), monitor.events_seen)
        if state == self._shown and not self._waiting_charts:
            return
        figures = figures_in(workbench.tables_of(workbench.viewed or monitor.run_id))
        if state != self._shown:
            whole = self._shown is None or self._shown[0] != state[0]
            self._shown = state
            self._show_texts(monitor, figures)
            waiting = self._waiting_charts
            fresh = [name for name in self._charts if name not in waiting]
            self._waiting_charts = fresh + waiting
            if whole or not monitor.live:
                for name in self._charts:
                    self._show_chart(name, monitor, figures)
                self._waiting_charts = []
                return
        # One chart at a time: three at once would keep keys waiting.
        self._show_chart(self._waiting_charts.pop(), monitor, figures)

    def _show_texts(self, monitor: RunMonitor, figures: Sequence[Figure]) -> None:
        self._verdict.display = not monitor.live
        if not monitor.live:
            self._verdict.show(lambda width: verdict_lines(monitor, figures, width))
        panel = self._epochs.parent
        room = max(6, panel.content_size.height if isinstance(panel, Widget) else 0)
        self._epochs.show(lambda width: epoch_table(monitor, figures, room))
        most = _LOG_TALL if self.app.size.height >= 34 else _LOG_LOW
        self._log.show(lambda width: log_lines(monitor, most))

    def _show_chart(
        self, name: str, monitor: RunMonitor, figures: Sequence[Figure]
    ) -> None:
        chart = self._charts[name]
        if not chart.display:
            return
        series = monitor.series.series()
        if name == "step":
            modelled = series.curve("ipu_step_us")
            in_ms = Curve(modelled.xs, tuple(y / 1000 for y in modelled.ys))
            chart.show_curves(
                [
                    NamedCurve(
                        "measured",
                        series.curve("host_step_ms"),
                        _milliseconds,
                        "host_step_ms",
                    ),
                    NamedCurve("modelled", in_ms, _milliseconds, variable="accent"),
                ]
            )
            return
        printed = tuple(item.accuracy for item in figures if item.accuracy)[-1:]
        references = printed if name == "accuracy" else ()
        curve = NamedCurve("", series.curve(name), metric=name)
        chart.show_curves([curve], references)

    @property
    def _key(self) -> str:
        monitor = self.workbench.viewed_run
        return self.workbench.viewed or (monitor.run_id if monitor else "")

    def action_mark_viewed(self) -> None:
        """Put the run into the comparison, or take it out."""
        if self._key:
            self.workbench.toggle_mark(self._key)

    async def action_run_again(self) -> None:
        """Start the experiment of this run once more."""
        monitor = self.workbench.viewed_run
        if monitor is None:
            self.say("no run yet: F5 starts one")
            return
        spec, problems = validate(self.workbench.tables_of(self._key))
        if spec is None:
            self.say(f"cannot run: {problems[0]}", bad=True)
            return
        await self.workbench.start_run(spec, monitor.preset)

    async def action_run_resume_here(self) -> None:
        """Go on with this run."""
        await self.workbench.resume_run(self._key)

    async def action_run_evaluate(self) -> None:
        """Measure the trained model on the test data."""
        await self.workbench.evaluate_run(self._key)

    def action_run_log(self) -> None:
        """Show all messages."""
        # Built only when asked for.
        from workbench.ui.screens.log import LogScreen

        monitor = self.workbench.viewed_run
        if monitor is None:
            self.say("no run yet: F5 starts one")
            return
        stored = self.workbench.stored_run(self._key)
        path = stored.directory / "run.log" if stored else None
        self.app.push_screen(LogScreen(monitor, path))


def _milliseconds(value: float) -> str:
    return microseconds(value * 1000)
