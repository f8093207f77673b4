"""Report: where the modelled time and memory go, and what was measured."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

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


class ReportArea(Area):
    """Time on the left, memory on the right."""

    SCOPE: ClassVar[Scope] = Scope.REPORT
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.REPORT)]

    def compose(self) -> ComposeResult:
        """Build the two columns."""
        with Horizontal(classes="columns", id="report-columns"):
            with VerticalScroll(id="report-time", classes="panel", can_focus=True):
                yield Static(id="report-time-text")
            with VerticalScroll(id="report-memory", classes="panel", can_focus=True):
                yield Static(id="report-memory-text")

    def on_mount(self) -> None:
        """Begin with the first IPU."""
        self._ipu = 0
        self.query_one("#report-time").border_title = "Time of a step (modelled)"

    def on_resize(self) -> None:
        """Bars follow the width."""
        self.call_after_refresh(self.refresh_area)

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
        time_text = self.query_one("#report-time-text", Static)
        memory_text = self.query_one("#report-memory-text", Static)
        if plan is None or plan.step is None:
            time_text.update(plan_line(self.draft))
            memory_text.update("")
            return
        width = self.query_one("#report-time").content_size.width - 1
        rows = [
            *step_parts(plan, width),
            *measured_beside_modelled(plan, self._measured()),
        ]
        time_text.update(lines(*rows, *layer_times(plan, width)))
        self._show_memory(plan, memory_text)

    def _show_memory(self, plan: Plan, text: Static) -> None:
        panel = self.query_one("#report-memory")
        width = panel.content_size.width - 1
        self._ipu = min(self._ipu, max(0, len(plan.memory) - 1))
        panel.border_title = "Memory per IPU (modelled)"
        rows = memory_table(plan, width)
        if plan.memory:
            rows += tile_view(plan.memory[self._ipu], len(plan.memory), width)
        text.update(lines(*rows))

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
