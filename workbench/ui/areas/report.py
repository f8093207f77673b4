"""Report: where the modelled time and memory go, and what was measured."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.reports.document import MUTED
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import recorded_plan
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.plan_summary import plan_line, plan_summary
from workbench.ui.content.report import memory_document, time_document
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Horizontal, VerticalScroll
from workbench.views.content import document_content, line
from workbench.views.layout import TextStyle

_CHART_ROWS = 6


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
        self._planned: tuple[str, Plan | None] | None = None
        self._opened: tuple[str, str] | None = None
        self._walked: tuple[Plan, tuple[MemoryWalk, ...]] | None = None

    def focus_target(self) -> Widget:
        """The times scroll."""
        return self.query_one("#report-time")

    def _script(self) -> StoredRun | None:
        """Return the record of a script that was opened after the preset was."""
        chosen, preset = self.runs.chosen, self.draft.preset.name
        if self._opened is None or self._opened[0] != chosen:
            self._opened = chosen, preset
        stored = self.runs.record(chosen)
        if stored is None or not stored.script or self._opened[1] != preset:
            return None
        return stored

    def _plan(self) -> Plan | None:
        """Return the plan of the script that is looked at, else of the experiment."""
        script = self._script()
        if script is None:
            return self.draft.plan
        if self._planned is None or self._planned[0] != script.run_id:
            self._planned = script.run_id, recorded_plan(script)
        return self._planned[1]

    def _measured_ms(self) -> float | None:
        """Return what a batch of the script took that is looked at, or of the draft."""
        if self._script() is None:
            measured = self.measured()
            return None if measured is None else measured.ms_per_batch
        view = self.runs.viewed_view
        newest = view.newest if view is not None else None
        return None if newest is None else newest.host_ms_per_batch

    def refresh_area(self) -> None:
        """Show the plan of the experiment, or of the script that was opened."""
        plan, script = self._plan(), self._script()
        of = f" of {script.preset}" if script else ""
        self.query_one("#report-time").border_title = f"Time of a step{of} (modelled)"
        times = self.query_one("#report-time-text", FlowText)
        memory = self.query_one("#report-memory-text", FlowText)
        self.query_one("#report-memory").border_title = "Memory per IPU (modelled)"
        overridden = script.summary.get("overridden") if script else None
        if script is None and plan is not None and plan.not_modelled:
            draft, here = self.draft, self.measured()
            self.query_one("#report-time").border_title = "Time"
            self.query_one("#report-memory").border_title = "Memory"
            times.show(lambda width: plan_summary(draft, width, here))
            memory.show(lambda width: line((" not modelled", MUTED)))
            return
        if plan is None or plan.step is None:
            draft = self.draft
            none = line((" The script has no program with a plan.", MUTED))
            times.show(lambda width: none if script else plan_line(draft))
            memory.show(lambda width: Content())
            return
        measured = self._measured_ms()
        ascii_only = bool(getattr(self.app, "ascii_only", False))
        self._ipu = min(self._ipu, max(0, len(plan.memory) - 1))
        laid_over = overridden if isinstance(overridden, list) else []
        timed = time_document(plan, measured, list(map(str, laid_over)))
        times.show(lambda width: document_content(timed, _style(width, ascii_only)))
        walks, ipu = self._walks(plan), self._ipu
        memory.show(
            lambda width: document_content(
                memory_document(plan, walks, ipu, width), _style(width, ascii_only)
            )
        )

    def _walks(self, plan: Plan) -> tuple[MemoryWalk, ...]:
        if self._walked is None or self._walked[0] is not plan:
            self._walked = plan, walk_memory(plan)
        return self._walked[1]

    def _show_ipu(self, step: int) -> None:
        plan = self._plan()
        if plan is not None and plan.memory:
            self._ipu = (self._ipu + step) % len(plan.memory)
            self.refresh_area()
            self.query_one("#report-memory").scroll_home(animate=False)

    def action_report_next_ipu(self) -> None:
        """Show the memory of the next IPU."""
        self._show_ipu(1)

    def action_report_previous_ipu(self) -> None:
        """Show the memory of the IPU before."""
        self._show_ipu(-1)


def _style(width: int, ascii_only: bool) -> TextStyle:
    return TextStyle(width, ascii_only, indent=0, area_height=_CHART_ROWS)
