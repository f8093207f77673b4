"""Compare: marked runs side by side, what differs first."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from workbench.core.compare import Comparison, compare_runs
from workbench.core.describe import METRIC_WORDS
from workbench.core.run_export import runs_to_csv
from workbench.core.run_store import StoredRun
from workbench.core.series import METRICS
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.comparison import comparison_rows, legend
from workbench.ui.content.pieces import HEADING, MUTED, line, lines
from workbench.ui.themes import RUN_COLOURS, RUN_MARKERS
from workbench.ui.widgets.chart import ChartView, NamedCurve
from workbench.ui.widgets.row_list import RowList


class CompareArea(Area):
    """Table on top, overlaid curves below."""

    SCOPE: ClassVar[Scope] = Scope.COMPARE
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.COMPARE)]

    def compose(self) -> ComposeResult:
        """Build table and chart."""
        yield Static(id="compare-empty")
        with Vertical(id="compare-panel", classes="panel"):
            yield RowList(id="compare-table")
        yield Static(id="compare-legend")
        yield ChartView(
            "loss",
            empty="the runs have no such curve",
            id="compare-chart",
        )

    def on_mount(self) -> None:
        """Begin with the differences and the loss."""
        self._only_differences = True
        self._best = True
        self._metric = 0

    @on(RowList.Resized)
    def _resized(self) -> None:
        self.refresh_area()

    def focus_target(self) -> Widget:
        """The chart has most keys."""
        return self.query_one(ChartView if self._runs() else RowList)

    def _runs(self) -> list[StoredRun]:
        found = (self.workbench.stored_run(key) for key in self.workbench.marked)
        return [run for run in found if run is not None]

    def refresh_area(self) -> None:
        """Show the marked runs, or how to mark some."""
        runs = self._runs()
        empty = self.query_one("#compare-empty", Static)
        empty.display = not runs
        for name in ("#compare-panel", "#compare-legend", "#compare-chart"):
            self.query_one(name).display = bool(runs)
        if not runs:
            empty.update(_how_to_mark(len(self.workbench.run_entries())))
            return
        self._show(compare_runs(runs))

    def _show(self, comparison: Comparison) -> None:
        panel = self.query_one("#compare-panel")
        panel.border_title = (
            "What differs" if self._only_differences else "All fields"
        ) + (", best values" if self._best else ", last values")
        table = self.query_one("#compare-table", RowList)
        width = table.scrollable_content_region.width
        table.set_rows(
            comparison_rows(comparison, width, self._only_differences, self._best)
        )
        self.query_one("#compare-legend", Static).update(
            legend(comparison, self.size.width)
        )
        chart = self.query_one(ChartView)
        metric = METRICS[self._metric]
        chart.retitle(
            f"{METRIC_WORDS[metric].title} {METRIC_WORDS[metric].unit}".strip()
        )
        chart.show_curves(
            [
                NamedCurve(
                    "",
                    series.curve(metric),
                    colour=RUN_COLOURS[index % len(RUN_COLOURS)],
                    marker=RUN_MARKERS[index % len(RUN_MARKERS)],
                )
                for index, series in enumerate(comparison.series)
            ]
        )

    def action_compare_differences(self) -> None:
        """Change between what differs and all fields."""
        self._only_differences = not self._only_differences
        self.refresh_area()

    def action_compare_best(self) -> None:
        """Change between best and last values."""
        self._best = not self._best
        self.refresh_area()

    def action_compare_metric(self) -> None:
        """Overlay the next metric."""
        self._metric = (self._metric + 1) % len(METRICS)
        self.refresh_area()

    async def action_compare_add(self) -> None:
        """Go to the list of runs to mark another."""
        await self.workbench.show_area("start")
        self.workbench.query_one("#runs").focus()
        self.say("space marks a run, 5 comes back")

    def action_compare_clear(self) -> None:
        """Take all runs out of the comparison."""
        self.workbench.marked.clear()
        self.workbench.show_runs()
        self.refresh_area()

    @work
    async def action_compare_export(self) -> None:
        """Write the comparison to a file."""
        # Built only when asked for.
        from workbench.ui.screens.save_file import save_text

        runs = self._runs()
        if not runs:
            self.say("no runs are marked: space marks one", bad=True)
            return
        await save_text(self.workbench, "comparison.csv", runs_to_csv(runs))


def _how_to_mark(count: int) -> Content:
    if not count:
        text = " Runs can be compared once there are some: F5 starts one."
    else:
        text = " Press a for the list of runs, mark two or more with space, then 5."
    return lines(line((" Nothing to compare yet", HEADING)), line((text, MUTED)))
