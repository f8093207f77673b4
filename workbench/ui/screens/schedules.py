"""Every schedule for the same stages, with the timeline of the one under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import change, microseconds, share
from ipu_runtime.reports.document import BAD, GOOD, MUTED, WARN
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.schedule_comparison import ScheduleRow, compare_schedules
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.ui.widgets.timeline_view import LEGEND, TimelineView
from workbench.views.cells import fit
from workbench.views.content import line

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
        self._now = spec.pipeline.schedule

    def compose(self) -> ComposeResult:
        """Build table and timeline."""
        with Vertical(classes="box wide-box") as box:
            box.border_title = "Schedules (modelled)"
            yield Static(_heading())
            yield RowList(id="schedules")
            yield Static(id="schedule-note")
            yield TimelineView(id="whatif-timeline")
            yield Static(line((LEGEND, MUTED)), id="schedule-caption")

    def on_mount(self) -> None:
        """Put the cursor on the schedule in use."""
        table = self.query_one("#schedules", RowList)
        base = self._rows[self._now].us_per_batch
        rows = [
            Row(_line(row, self._now, base), kind) for kind, row in self._rows.items()
        ]
        table.styles.height = len(rows)
        table.set_rows(rows)
        table.cursor_key = self._now
        table.focus()
        timeline = self._rows[self._now].timeline
        ipus = len(timeline.ipus) if timeline else 0
        room = max(4, self.app.size.height - _OTHER_LINES)
        self.query_one(TimelineView).styles.height = min(ipus + 2, room)
        self._show(self._now)

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


def _heading() -> Content:
    text = (
        f"  {'schedule':<18}{'per batch':>10}{'':>7}{'bubble':>7}{'stash':>6}"
        f"{'memory':>12}  on the IPU"
    )
    return line((text, MUTED))


def _line(row: ScheduleRow, now: str, base: float) -> Content:
    name = fit(row.kind.value + (" (now)" if row.kind.value == now else ""), 18)
    if row.timeline is None:
        return line("  ", name, (fit(f"  {row.reason}", 54), WARN))
    difference = change(row.us_per_batch, base) if row.kind.value != now else ""
    memory = share(row.memory_fraction) if row.memory_fraction is not None else "-"
    bubble = share(row.timeline.schedule.bubble_fraction)
    return line(
        "  ",
        name,
        f"{microseconds(row.us_per_batch):>10}",
        (f"{difference:>7}", GOOD if row.us_per_batch < base else WARN),
        f"{bubble:>7}{row.stash:>6}{memory:>12}  ",
        ("yes", GOOD) if row.kind.on_ipu else ("no, what-if", MUTED),
    )


def _note(row: ScheduleRow, now: str) -> Content:
    if row.reason:
        return line((f"cannot be used: {row.reason}", BAD))
    if not row.kind.on_ipu:
        return line(("not on the IPU: shown to compare, cannot be run", WARN))
    if row.kind.value == now:
        return line(("in use; esc closes", MUTED))
    return line(("enter uses it, esc closes", MUTED))
