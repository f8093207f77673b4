"""What stands where a device's figures would: on a CPU nothing is modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import count, microseconds, plural
from ipu_runtime.reports.document import (
    WARN,
    Column,
    Document,
    Note,
    Part,
    Row,
    Section,
    Table,
)
from workbench.experiment.printed_figures import printed_figures
from workbench.experiment.tables import field_value
from workbench.runs.cpu_figures import Measured, newest_measured


def cpu_document(
    plan: Plan, title: str, tables: Mapping[str, Any], preset: str
) -> Document:
    """Return what can be said of an experiment on the CPU."""
    dtype = field_value(tables, "model.dtype") or plan.request.model.dtype
    section = cpu_section(plan, tables, preset, newest_measured(tables, preset))
    return Document(title, (section,), f"CPU, {dtype}")


def cpu_section(
    plan: Plan, tables: Mapping[str, Any], preset: str, measured: Measured | None
) -> Section:
    """Return why nothing is modelled, and the times that are known."""
    printed = printed_figures(tables, preset)
    samples = plural(plan.request.batch_size, "sample")
    rows = []
    times = [item.step_us for item in printed.comparable if item.step_us is not None]
    if times:
        low, high = (microseconds(time) for time in (min(times), max(times)))
        value = low if low == high else f"{low} to {high}"
        rows.append(("document", value, "per batch"))
    if measured is None:
        rows.append(("measured", "-", "no run with these settings"))
    else:
        rate = f"{count(measured.samples_per_second)} samples/s"
        value = microseconds(measured.ms_per_batch * 1e3)
        rows.append(("measured", value, f"per batch, {rate}, {measured.where}"))
    epoch = f"{plan.steps_per_epoch:,}"
    rows.append(("epoch", epoch, f"batches of {samples}"))
    columns = Column(), Column(right=True), Column(least=12, wraps=True, fills=True)
    parts: list[Part] = [
        Note(f"Not modelled: {plan.not_modelled}"),
        Table(columns, tuple(map(Row, rows))),
    ]
    if printed.why_not:
        parts.append(Note(printed.why_not, WARN))
    return Section("", tuple(parts))
