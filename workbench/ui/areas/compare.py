"""Compare: marked runs side by side, what came of them first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from ipu_runtime.plan.quantities import byte_size
from ipu_runtime.reports.document import HEADING, MUTED
from workbench.comparing.compare import Comparison
from workbench.export.run_export import runs_to_csv
from workbench.runs.describe import METRIC_WORDS
from workbench.runs.series import METRICS
from workbench.ui.actions import Scope, actions_in, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.comparison import (
    MODEL,
    CompareView,
    column_order,
    comparison_rows,
    legend,
    row_in_full,
    sign_of,
)
from workbench.ui.handlers import Handlers
from workbench.ui.screens.reader import Reader
from workbench.ui.themes import RUN_COLOURS
from workbench.ui.widgets.chart import ChartView, NamedCurve
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Static, Vertical, VerticalScroll
from workbench.ui.widgets.row_list import RowList
from workbench.views.content import document_content, line, lines
from workbench.views.layout import TextStyle

if TYPE_CHECKING:
    from workbench.comparing.memory_curves import MemoryCurve


class CompareArea(Area):
    """Table on top, overlaid curves below."""

    SCOPE: ClassVar[Scope] = Scope.COMPARE
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.COMPARE)]

    def __init__(self, handlers: Handlers, *, name: str) -> None:
        super().__init__(handlers, name=name)
        self._how = Static(id="compare-how")
        self._empty = VerticalScroll(self._how, id="compare-empty", can_focus=True)
        self._table = RowList(id="compare-table")
        self._panel = Vertical(self._table, id="compare-panel", classes="panel")
        self._legend = FlowText(id="compare-legend")
        self._chart = ChartView(
            "loss", empty="the runs have no such curve", id="compare-chart"
        )

    def compose(self) -> ComposeResult:
        """Build table and chart."""
        yield from (self._empty, self._panel, self._legend, self._chart)

    def on_mount(self) -> None:
        """Begin with the differences and the loss."""
        self._view = CompareView()
        self._pinned = ""
        self._metric = 0
        self._memory: tuple[Comparison, Sequence[MemoryCurve]] | None = None

    @on(RowList.Resized)
    def _resized(self) -> None:
        self.refresh_area()

    @property
    def footer_scopes(self) -> tuple[Scope, ...]:
        """The chart has keys of its own."""
        focused = self._chart.has_focus if self.is_mounted else False
        return (Scope.CHART, Scope.COMPARE) if focused else (Scope.COMPARE,)

    @property
    def useless(self) -> tuple[str, ...]:
        """Without runs there is nothing but adding some."""
        own = () if self.handlers.marked.records else actions_in(Scope.COMPARE)
        return tuple(spec.id for spec in own if spec.id != "compare.add")

    def focus_target(self) -> Widget:
        """The table has most keys; without runs, what says how to mark some."""
        return self.query_one(
            "#compare-table" if self.handlers.marked.records else "#compare-empty"
        )

    def refresh_area(self) -> None:
        """Show the marked runs, or how to mark some."""
        runs = self.handlers.marked.records
        self._empty.display = not runs
        for part in (self._panel, self._legend, self._chart):
            part.display = bool(runs)
        if runs:
            self._show(self.handlers.marked.compared())
            return
        how = _how_to_mark(len(self.runs.entries()))
        self._how.update(how)
        if self.screen.focused is None or self in self.screen.focused.ancestors:
            # Keys go where the focus is, and what had it may be hidden now.
            self.screen.set_focus(self._empty)

    def _show(self, comparison: Comparison) -> None:
        ids = [run.run_id for run in comparison.runs]
        baseline = ids.index(self._pinned) if self._pinned in ids else 0
        column = min(self._view.column, len(ids) - 1)
        self._view = replace(self._view, baseline=baseline, column=column)
        panel = self._panel
        pinned = "pinned" if self._pinned in ids else "P pins another"
        name = comparison.names.names[baseline]
        panel.border_title = f"Baseline {sign_of(baseline)[0]} {name} ({pinned})"
        table = self._table
        width = table.scrollable_content_region.width
        rows = comparison_rows(comparison, width, self._view)
        table.set_rows(rows)
        panel.styles.height = len(rows) + 2
        self._legend.show(lambda width: legend(comparison, width))
        chart = self._chart
        if self._metric == len(METRICS):
            self._show_memory(comparison, chart)
            return
        metric = METRICS[self._metric]
        chart.retitle(
            f"{METRIC_WORDS[metric].title} {METRIC_WORDS[metric].unit}".strip()
        )
        chart.show_curves(
            [
                NamedCurve(
                    sign_of(index)[0],
                    series.curve(metric),
                    colour=RUN_COLOURS[index % len(RUN_COLOURS)],
                    sign=sign_of(index)[0],
                )
                for index, series in enumerate(comparison.series)
            ]
        )

    def _show_memory(self, comparison: Comparison, chart: ChartView) -> None:
        """Lay the memory of the runs' plans over each other."""
        chart.retitle("Memory over the program (modelled), MiB")
        found: Sequence[MemoryCurve] = ()
        if self._memory is not None and self._memory[0] is comparison:
            found = self._memory[1]
        else:
            self._walk_memory(comparison)
        always = {item.always_live: None for item in found if item.curve.ys}
        chart.show_curves(
            [
                NamedCurve(
                    sign_of(index)[0],
                    item.curve,
                    show=_mebibytes,
                    colour=RUN_COLOURS[index % len(RUN_COLOURS)],
                    sign=sign_of(index)[0],
                    summary=f"peak {_mebibytes(max(item.curve.ys, default=0.0))}",
                )
                for index, item in enumerate(found)
            ],
            tuple(always),
            unit="dotted: always live",
        )

    @work(exclusive=True, group="memory")
    async def _walk_memory(self, comparison: Comparison) -> None:
        # It loads the planner.
        from workbench.comparing.memory_curves import memory_curve

        def walked() -> list[MemoryCurve]:
            return [memory_curve(run) for run in comparison.runs]

        self._memory = comparison, await asyncio.to_thread(walked)
        self.refresh_area()

    def _look(self, **changes: object) -> None:
        self._view = replace(self._view, **changes)  # type: ignore[arg-type]
        self.refresh_area()

    def action_compare_differences(self) -> None:
        """Change between what differs and all fields."""
        self._look(only_differences=not self._view.only_differences)

    def action_compare_best(self) -> None:
        """Change between best and last values."""
        self._look(best=not self._view.best)

    def action_compare_left(self) -> None:
        """Choose the run before."""
        self._choose(-1)

    def action_compare_right(self) -> None:
        """Choose the next run."""
        self._choose(1)

    def _choose(self, step: int) -> None:
        if (runs := self.handlers.marked.records) and len(runs) > 1:
            order = column_order(self.handlers.marked.compared(), self._view.baseline)
            at = order.index(self._view.column) + step
            self._look(column=order[min(max(at, 0), len(order) - 1)])

    def action_compare_pin(self) -> None:
        """Tell all changes against the run under the cursor."""
        if runs := self.handlers.marked.records:
            self._pinned = runs[self._view.column].run_id
            self.refresh_area()
            self.say("it is the baseline now, whichever runs are marked")

    @on(RowList.Clicked, "#compare-table")
    def action_compare_read(self) -> None:
        """Read a row in full; the model's opens and closes."""
        key = self._table.cursor_key
        if not self.handlers.marked.records or not key:
            return
        if key == MODEL:
            self._look(unfolded=not self._view.unfolded)
            return
        comparison, view = self.handlers.marked.compared(), self._view
        title = next((row.name for row in comparison.metrics if row.key == key), key)
        self.app.push_screen(
            Reader(title, lambda width: row_in_full(comparison, key, view, width))
        )

    @work
    async def action_compare_explain(self) -> None:
        """Go from the baseline to the chosen run one changed field at a time."""
        runs, view = self.handlers.marked.records, self._view
        if len(runs) < 2:
            self.say("mark two runs to explain what is between them", bad=True)
            return
        order = column_order(self.handlers.marked.compared(), view.baseline)
        other = view.column if view.column != view.baseline else order[1]
        # They load the planner.
        from workbench.comparing.explaining import explain
        from workbench.views.explanation import explanation_document

        self.say("planning what lies between the two runs")
        explanation = await asyncio.to_thread(explain, runs[view.baseline], runs[other])
        self.say("")
        names = self.handlers.marked.compared().names.names
        ends = names[view.baseline], names[other]
        document = replace(explanation_document(explanation, *ends), title="")
        title = f"From {sign_of(view.baseline)[0]} to {sign_of(other)[0]}"
        self.app.push_screen(
            Reader(title, lambda width: document_content(document, TextStyle(width)))
        )

    def action_compare_curves(self) -> None:
        """Give the keys to the curves, or back to the table."""
        chart = self._chart
        self.screen.set_focus(self._table if chart.has_focus else chart)

    def action_compare_metric(self) -> None:
        """Overlay the next metric; after the last one comes modelled memory."""
        self._metric = (self._metric + 1) % (len(METRICS) + 1)
        self.refresh_area()

    async def action_compare_add(self) -> None:
        """Go to the list of runs to mark another."""
        await self.handlers.show_runs()
        self.say("space marks a run, 5 comes back")

    def action_compare_clear(self) -> None:
        """Take all runs out of the comparison."""
        self._pinned = ""
        self.handlers.marked.clear()
        self.refresh_area()

    @work
    async def action_compare_export(self) -> None:
        """Write the comparison to a file."""
        runs = self.handlers.marked.records
        if not runs:
            self.say("no runs are marked: space marks one", bad=True)
            return
        await self.save_text("comparison.csv", runs_to_csv(runs))


def _mebibytes(value: float) -> str:
    return byte_size(value * 2**20)


def _how_to_mark(count: int) -> Content:
    if not count:
        text = " Runs can be compared once there are some: F5 starts one."
    else:
        text = " Press a for the list of runs, mark two or more with space, then 5."
    return lines(line((" Nothing to compare yet", HEADING)), line((text, MUTED)))
