"""Run: progress, curves, epochs, log and verdict of one run."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from ipu_runtime.plan.quantities import microseconds
from workbench.experiment.printed_figures import PrintedFigures, printed_figures
from workbench.runs.run_view import RunView
from workbench.runs.series import Curve
from workbench.runs.verdict import remedy
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.run_tables import (
    empty_run,
    epoch_table,
    instances_line,
    log_lines,
    progress_line,
    verdict_lines,
)
from workbench.ui.content.script_run import (
    calls_line,
    opened_script,
    printed_lines,
)
from workbench.ui.handlers import Handlers
from workbench.ui.widgets.chart import ChartView, NamedCurve
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Grid, VerticalScroll
from workbench.ui.widgets.run_messages import ForkWanted

_PANELS = ("#chart-loss", "#chart-accuracy", "#chart-time", "#epochs-panel")
_LOG_LOW, _LOG_TALL = 1, 4
_OF_EXPERIMENTS = ("run.fork", "run.vary", "run.evaluate", "run.resume_here")
_OF_SCRIPTS = ("script.capture", "call.before", "call.after")


class RunArea(Area):
    """Four panels; small windows show one at a time."""

    SCOPE: ClassVar[Scope] = Scope.RUN
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.RUN),
        Binding("tab", "panel(1)", "Next chart", show=False),
        Binding("shift+tab", "panel(-1)", "Chart before", show=False),
        Binding("space", "mark_viewed", "Mark for comparison", show=False),
    ]

    def __init__(self, handlers: Handlers, *, name: str) -> None:
        super().__init__(handlers, name=name)
        # Kept, because timers reach them even while the app closes.
        self._progress = FlowText(id="run-progress")
        self._calls = FlowText(id="run-calls")
        self._verdict = FlowText(id="run-verdict")
        self._epochs = FlowText(id="epochs")
        self._log = FlowText(id="run-log")
        self._charts = {
            "loss": ChartView("loss", empty="the loss grows here", id="chart-loss"),
            "accuracy": ChartView(
                "accuracy", empty="the accuracy grows here", id="chart-accuracy"
            ),
            "time": ChartView(
                "batch",
                log_y=True,
                unit="ms",
                empty="measured and modelled time per batch grow here",
                id="chart-time",
            ),
        }
        self._panel = 0
        self._maximised = False
        self._shown: RunView | None = None
        self._printed = PrintedFigures()
        self._call = ""
        """The call of a script whose curves are shown; empty for the run's own."""
        self._due_charts: dict[str, None] = {}
        """Charts that do not show yet what has come, the longest due first."""

    def compose(self) -> ComposeResult:
        """Build the panels."""
        yield self._progress
        yield self._calls
        yield self._verdict
        with Grid(id="run-panels"):
            yield from self._charts.values()
            with VerticalScroll(
                self._epochs, id="epochs-panel", classes="panel", can_focus=True
            ) as panel:
                panel.border_title = "epochs, times per batch"
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

    @on(ChartView.CursorMoved)
    def _read_everywhere(self, event: ChartView.CursorMoved) -> None:
        event.stop()
        for chart in self._charts.values():
            chart.cursor = event.x

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
        view = self.runs.viewed_view
        if view is not None and view.live:
            return (Scope.CHART,)
        return (Scope.RUN, Scope.CHART)

    @property
    def useless(self) -> tuple[str, ...]:
        """An experiment is forked and evaluated, a script captured."""
        view = self.runs.viewed_view
        opened = self.handlers.scripts.opened is not None
        script = opened if view is None else view.script
        return _OF_EXPERIMENTS if script else _OF_SCRIPTS

    def refresh_area(self) -> None:
        """Show the run that is looked at."""
        self._shown = None
        self.refresh_run()

    def refresh_run(self) -> None:
        """Show what has come since; called when the run has grown."""
        view = self.runs.viewed_view
        if view is None:
            self._show_none()
            return
        another = view is not self._shown
        if another:
            self._shown = view
            self._printed = printed_figures(
                self.runs.tables(self.runs.viewed), view.preset
            )
        self._call = self._call if self._call in view.calls else ""
        self._progress.show(lambda width: progress_line(view, width))
        self._show_texts(view)
        if another or not view.live:
            self._due_charts.clear()
            for name in self._charts:
                self._show_chart(name, view)
        else:
            drawing = bool(self._due_charts)
            self._due_charts |= dict.fromkeys(self._charts)
            if not drawing:
                self._show_due_chart()

    def _show_due_chart(self) -> None:
        """Draw one chart at a time: three at once would keep keys waiting."""
        if self._shown is None or not self._due_charts:
            return
        name = next(iter(self._due_charts))
        del self._due_charts[name]
        self._show_chart(name, self._shown)
        if self._due_charts:
            self.call_after_refresh(self._show_due_chart)

    def _show_none(self) -> None:
        """Say what will be here; a script may be opened that has not run."""
        script = self.handlers.scripts.opened
        self._progress.show(
            lambda width: opened_script(script, width) if script else empty_run()
        )
        self._shown = None
        self._calls.display = self._verdict.display = False
        for text in (self._epochs, self._log):
            text.show(lambda width: Content())
        for chart in self._charts.values():
            chart.show_curves([])

    def _show_texts(self, view: RunView) -> None:
        printed = self._printed
        self._verdict.display = not view.live
        if not view.live:
            mend = remedy(view, self.runs.tables(self.runs.viewed))
            self._verdict.show(lambda width: verdict_lines(view, printed, mend, width))
        states = view.instances
        calls_shown = view.script and bool(view.calls or view.live)
        self._calls.display = calls_shown or bool(states)
        if states:
            self._calls.show(lambda width: instances_line(states, width))
        elif view.script:
            calls, chosen = list(view.calls.values()), self._call
            self._calls.show(lambda width: calls_line(calls, chosen, width))
        epochs = self._epochs
        epochs.show(
            lambda width: epoch_table(view, printed, width, epochs.content_size.height)
        )
        # Log and verdict share their lines, so that charts keep their height.
        room = _LOG_TALL if self.app.size.height >= 34 else _LOG_LOW
        size, shown = self.size, self._verdict.display
        said = self._verdict.get_content_height(size, size, size.width) if shown else 0
        most = max(_LOG_LOW, room - said)
        self._log.styles.height = most
        log = self.runs.log(self.runs.viewed) if view.script else None
        said_by_script = printed_lines(log, most) if log else None
        self._log.show(lambda width: said_by_script or log_lines(view, most))

    def _show_chart(self, name: str, view: RunView) -> None:
        chart = self._charts[name]
        if not chart.display:
            return
        series = view.series.series()
        series = series.calls.get(self._call, series)
        if name == "time":
            modelled = series.curve("ipu_us_per_batch")
            in_ms = replace(modelled, ys=tuple(y / 1000 for y in modelled.ys))
            chart.show_curves(
                [
                    NamedCurve(
                        "measured",
                        series.curve("host_ms_per_batch"),
                        _milliseconds,
                        "host_ms_per_batch",
                    ),
                    NamedCurve("modelled", in_ms, _milliseconds, variable="accent"),
                ],
                grow=view.live,
            )
            return
        reached = tuple(x.accuracy for x in self._printed.comparable if x.accuracy)
        references = reached[-1:] if name == "accuracy" else ()
        mean = series.means.get(name, Curve())
        curve = NamedCurve("", series.curve(name), metric=name, behind=mean)
        chart.show_curves([curve], references, grow=view.live)

    def action_call_before(self) -> None:
        """Show the curves of the call before."""
        self._choose_call(-1)

    def action_call_after(self) -> None:
        """Show the curves of the next call."""
        self._choose_call(1)

    def _choose_call(self, step: int) -> None:
        view = self.runs.viewed_view
        calls = ["", *view.calls] if view is not None else [""]
        if len(calls) == 1:
            self.say("only a script has calls to choose from", bad=True)
            return
        at = calls.index(self._call) if self._call in calls else 0
        self._call = calls[(at + step) % len(calls)]
        self.say(f"curves of {self._call or 'all training, one call after the other'}")
        self.refresh_area()

    def action_mark_viewed(self) -> None:
        """Put the run into the comparison, or take it out."""
        if self.runs.viewed:
            self.handlers.toggle_mark(self.runs.viewed)

    async def action_run_again(self) -> None:
        """Start the experiment of this run once more."""
        await self.handlers.again(self.runs.viewed)

    def action_run_fork(self) -> None:
        """Open the experiment of this run in the form."""
        self.post_message(ForkWanted(self.runs.viewed))

    @work
    async def action_run_vary(self) -> None:
        """Run it again with one field changed."""
        await self.handlers.vary(self.runs.viewed)

    async def action_run_resume_here(self) -> None:
        """Go on with this run."""
        await self.handlers.resume(self.runs.viewed)

    async def action_run_evaluate(self) -> None:
        """Measure the trained model on the test data."""
        await self.handlers.evaluate(self.runs.viewed)

    @work
    async def action_script_capture(self) -> None:
        """Make an experiment of the script that is looked at."""
        await self.handlers.capture()

    def action_run_log(self) -> None:
        """Show all messages."""
        # Built only when asked for.
        from workbench.ui.screens.log import LogScreen

        view = self.runs.viewed_view
        if view is None:
            self.say("no run yet: F5 starts one")
            return
        stored = self.runs.record(self.runs.viewed)
        path = stored.directory / "run.log" if stored else None
        self.app.push_screen(LogScreen(view, path))


def _milliseconds(value: float) -> str:
    return microseconds(value * 1000)
