"""Every schedule for the same stages, with the timeline of the one under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from ipu_runtime.plan.plan import Plan
from ipu_runtime.reports.document import BAD, MUTED, WARN
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.schedule_comparison import ScheduleRow, compare_schedules
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.ui.widgets.timeline_view import LEGEND, TimelineView
from workbench.views.content import line, listed
from workbench.views.schedules import schedules_table

_OTHER_LINES = 17
"""Lines of the screen that the timeline cannot have."""


class SchedulesScreen(SteadySize, ModalScreen[str | None]):
    """Enter uses a schedule; those that the IPU does not have are only shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.SCHEDULES),
        Binding("escape,k", "cancel", "Close", show=False),
    ]

    def __init__(self, spec: ExperimentSpec, plan: Plan) -> None:
        super().__init__()
        self._rows = {row.kind.value: row for row in compare_schedules(spec, plan)}
        self._now, self._plan = spec.pipeline.schedule, plan

    def compose(self) -> ComposeResult:
        """Build table and timeline."""
        with Vertical(classes="box wide-box") as box:
            box.border_title = "Schedules (modelled)"
            yield Static(id="schedules-heading")
            yield RowList(id="schedules")
            yield Static(id="schedule-note")
            yield TimelineView(id="whatif-timeline")
            yield Static(line((LEGEND, MUTED)), id="schedule-caption")

    def on_mount(self) -> None:
        """Put the cursor on the schedule in use."""
        table = self.query_one("#schedules", RowList)
        table.styles.height = len(self._rows)
        self._show_table()
        table.cursor_key = self._now
        table.focus()
        timeline = self._rows[self._now].timeline
        ipus = len(timeline.ipus) if timeline else 0
        room = max(4, self.app.size.height - _OTHER_LINES)
        self.query_one(TimelineView).styles.height = min(ipus + 2, room)
        self._show(self._now)

    @on(RowList.Resized)
    def _show_table(self) -> None:
        table = self.query_one("#schedules", RowList)
        shown = schedules_table(list(self._rows.values()), self._plan)
        head, rows = listed(shown, table.scrollable_content_region.width)
        self.query_one("#schedules-heading", Static).update(head)
        table.set_rows([Row(content, key) for key, content in rows])

    @on(TimelineView.Pointed)
    def _pointed(self) -> None:
        caption = self.query_one(TimelineView).caption
        self.query_one("#schedule-caption", Static).update(line((caption, MUTED)))

    @on(RowList.Highlighted)
    def _moved(self, event: RowList.Highlighted) -> None:
        self._show(event.key)

    def _show(self, kind: str) -> None:
        row = self._rows[kind]
        self.query_one(TimelineView).show_timeline(row.timeline)
        self.query_one("#schedule-note", Static).update(_note(row, self._now))

    @on(RowList.Clicked)
    def action_schedule_choose(self) -> None:
        """Use the schedule under the cursor if an IPU can."""
        row = self._rows[self.query_one("#schedules", RowList).cursor_key]
        if row.kind.on_ipu and not row.reason:
            self.dismiss(row.kind.value)
        else:
            self.query_one("#schedule-note", Static).update(_note(row, self._now))

    def action_cancel(self) -> None:
        """Leave the schedule as it is."""
        self.dismiss(None)


def _note(row: ScheduleRow, now: str) -> Content:
    if row.reason:
        return line((f"cannot be used: {row.reason}", BAD))
    if not row.kind.on_ipu:
        return line(("not on the IPU: shown to compare, cannot be run", WARN))
    if row.kind.value == now:
        return line(("in use; esc closes", MUTED))
    return line(("enter uses it, esc closes", MUTED))
