"""All schedules side by side for the same stages."""

from __future__ import annotations

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import change, microseconds, share
from ipu_runtime.plan.schedule.schedule import Recomputation
from ipu_runtime.reports.document import (
    GOOD,
    MUTED,
    WARN,
    Column,
    Note,
    Part,
    Row,
    Section,
    Span,
    Table,
)
from workbench.planning.schedule_comparison import ScheduleRow

_COLUMNS = (
    Column("schedule"),
    Column("per batch", right=True),
    Column(right=True, rank=1),
    Column("bubble", right=True),
    Column("stash", right=True),
    Column("memory", right=True),
    Column(least=8),
)


def schedules_section(rows: list[ScheduleRow], plan: Plan) -> Section:
    """Return what each schedule would give for the same stages."""
    title = "The same stages under every schedule"
    part: Part = Note("There is no pipeline to schedule.")
    if rows:
        part = schedules_table(rows, plan)
    return Section(title, (part,), "modelled; memory of the fullest tile")


def schedules_table(rows: list[ScheduleRow], plan: Plan) -> Table:
    """Return a row for each schedule; its key is the schedule's name."""
    base = next((row.us_per_batch for row in rows if _in_use(row, plan)), 0.0)
    return Table(_COLUMNS, tuple(_row(row, plan, base) for row in rows))


def _in_use(row: ScheduleRow, plan: Plan) -> bool:
    return plan.schedule is not None and plan.schedule.kind is row.kind


def _row(row: ScheduleRow, plan: Plan, base: float) -> Row:
    name = row.kind.value
    if row.timeline is None:
        return Row((name, Span(row.reason, WARN)), key=name)
    memory = "-" if row.memory_fraction is None else share(row.memory_fraction)
    changed = change(row.us_per_batch, base)
    cells = (
        name,
        microseconds(row.us_per_batch),
        Span(changed, GOOD if row.us_per_batch < base else WARN),
        share(row.timeline.schedule.bubble_fraction),
        str(row.stash),
        memory,
        Span(_remark(row, plan), MUTED),
    )
    return Row(cells, key=name)


def _remark(row: ScheduleRow, plan: Plan) -> str:
    if row.kind.on_ipu:
        return "this plan" if _in_use(row, plan) else ""
    recomputes = plan.schedule and (
        plan.schedule.recomputation is not Recomputation.OFF
    )
    without = ", without recomputation" if recomputes else ""
    return f"not on the IPU{without}"
