"""Report: where the modelled time and memory go, and what was measured."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget

from ipu_runtime.plan.plan import Plan
from workbench.core.run_monitor import RunMonitor
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.pieces import lines
from workbench.ui.content.plan_summary import plan_line
from workbench.ui.content.report import (
    layer_times,
    measured_beside_modelled,
    memory_table,
    step_parts,
    tile_view,
)
from workbench.ui.widgets.flow_text import FlowText


class ReportArea(Area):
    """Time on the left, memory on the right."""

    SCOPE: ClassVar[Scope] = Scope.REPORT
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.REPORT)]

    def compose(self) -> ComposeResult:
        """Build the two columns."""
        with Horizontal(classes="columns", id="report-columns"):
            with VerticalScroll(id="report-time", classes="panel", can_focus=True):
                yield FlowText(id="report-time-text")
            with VerticalScroll(id="report-memory", classes="panel", can_focus=True):
                yield FlowText(id="report-memory-text")

    def on_mount(self) -> None:
        """Begin with the first IPU."""
        self._ipu = 0
        self.query_one("#report-time").border_title = "Time of a step (modelled)"

    def focus_target(self) -> Widget:
        """The times scroll."""
        return self.query_one("#report-time")

    def _measured(self) -> RunMonitor | None:
        """Return the newest run of this preset."""
        for entry in self.workbench.run_entries():
            if entry.preset == self.draft.preset.name:
                return self.workbench.monitor_of(entry.key)
        return None

    def refresh_area(self) -> None:
        """Show the plan of the experiment."""
        plan = self.draft.plan
        times = self.query_one("#report-time-text", FlowText)
        memory = self.query_one("#report-memory-text", FlowText)
        self.query_one("#report-memory").border_title = "Memory per IPU (modelled)"
        if plan is None or plan.step is None:
            draft = self.draft
            times.show(lambda width: plan_line(draft))
            memory.show(lambda width: Content())
            return
        measured = self._measured()
        self._ipu = min(self._ipu, max(0, len(plan.memory) - 1))
        times.show(lambda width: _time_text(plan, measured, width))
        ipu = self._ipu
        memory.show(lambda width: _memory_text(plan, ipu, width))

    def _show_ipu(self, step: int) -> None:
        plan = self.draft.plan
        if plan is not None and plan.memory:
            self._ipu = (self._ipu + step) % len(plan.memory)
            self.refresh_area()

    def action_report_next_ipu(self) -> None:
        """Show the tiles of the next IPU."""
        self._show_ipu(1)

    def action_report_previous_ipu(self) -> None:
        """Show the tiles of the IPU before."""
        self._show_ipu(-1)


def _time_text(plan: Plan, measured: RunMonitor | None, width: int) -> Content:
    rows = [*step_parts(plan, width), *measured_beside_modelled(plan, measured)]
    return lines(*rows, *layer_times(plan, width))


def _memory_text(plan: Plan, ipu: int, width: int) -> Content:
    rows = memory_table(plan, width)
    if plan.memory:
        rows += tile_view(plan.memory[ipu], len(plan.memory), width)
    return lines(*rows)
