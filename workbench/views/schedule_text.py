"""All schedules side by side, as text for people."""

from __future__ import annotations

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import microseconds, share
from ipu_runtime.plan.schedule.schedule import Recomputation
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.schedule_comparison import ScheduleRow, compare_schedules
from workbench.views.cells import cut
from workbench.views.layout import TextStyle
from workbench.views.text_table import table_lines


def schedule_lines(spec: ExperimentSpec, plan: Plan, style: TextStyle) -> list[str]:
    """Return a table of what each schedule would give for the same stages."""
    rows = [_cells(row, plan) for row in compare_schedules(spec, plan)]
    if not rows:
        return ["Schedules: there is no pipeline to schedule"]
    headings = ["schedule", "per batch", "bubble", "stash", "memory", ""]
    lines = table_lines(headings, rows, left=(0, 5))
    room = style.width - 2
    return [
        "The same stages under every schedule (modelled; memory of the fullest tile)",
        *(f"  {cut(x, room, ascii_only=style.ascii_only)}" for x in lines),
    ]


def _cells(row: ScheduleRow, plan: Plan) -> list[str]:
    schedule = plan.schedule
    remark = ""
    if not row.kind.on_ipu:
        remark = "not on the IPU"
        if schedule and schedule.recomputation is not Recomputation.OFF:
            remark += ", without recomputation"
    elif schedule and schedule.kind is row.kind:
        remark = "this plan"
    if row.timeline is None:
        return [row.kind.value, "", "", "", "", row.reason]
    return [
        row.kind.value,
        microseconds(row.us_per_batch),
        share(row.timeline.schedule.bubble_fraction),
        str(row.stash),
        "" if row.memory_fraction is None else share(row.memory_fraction),
        remark,
    ]
