"""Compared runs: what came of them, what was set differently, and their curves."""

from __future__ import annotations

from ipu_runtime.plan.quantities import four_digits
from ipu_runtime.reports.document import (
    GOOD,
    MARK,
    MUTED,
    PLAIN,
    Column,
    Document,
    Note,
    Row,
    Section,
    Span,
    Table,
)
from workbench.comparing.compare import Comparison, MetricRow
from workbench.comparing.model_words import model_words
from workbench.comparing.run_names import value_words
from workbench.experiment.field_differences import FieldDifference
from workbench.views.curves import compared_charts


def comparison_document(comparison: Comparison) -> Document:
    """Return runs side by side, changes told against the first."""
    ids = [run.run_id for run in comparison.runs]
    columns = (
        Column(least=12),
        *(Column(run_id, least=10, wraps=True) for run_id in ids),
    )
    status = Row(("status", *(run.status.value for run in comparison.runs)))
    metrics = [
        Row((row.name, *(metric_cell(row, at, 0) for at in range(len(ids)))))
        for row in comparison.metrics
    ]
    fields = [
        Row(
            (
                item.path,
                *(Span(value_words(item.path, v), MARK) for v in item.values),
            )
        )
        for item in differences(comparison)
    ]
    if comparison.model_differs:
        fields.append(Row(("model", *map(model_words, comparison.models))))
    set_differently: tuple[Table | Note, ...] = (Note("no setting differs"),)
    if fields:
        set_differently = (Table(columns, tuple(fields)),)
    sections = (
        Section(
            "What came of it", (Table(columns, (status, *metrics)),), "* is the best"
        ),
        Section("Set differently", set_differently),
        compared_charts(comparison.series, comparison.names.names),
    )
    title = f"{len(ids)} runs compared"
    return Document(title, tuple(item for item in sections if item.parts))


def differences(comparison: Comparison) -> tuple[FieldDifference, ...]:
    """Return what was set differently, presets first."""
    presets = tuple(run.preset for run in comparison.runs)
    first = [FieldDifference("preset", presets)] if len(set(presets)) > 1 else []
    return (*first, *comparison.settings)


def metric_cell(row: MetricRow, index: int, baseline: int) -> Span:
    """Return a number of a run, its change against the baseline and who is best."""
    value, base = row.values[index], row.values[baseline]
    best = index == row.best_index
    if value is None:
        return Span("-", MUTED)
    told = index != baseline and base and not row.other_units
    delta = full_change(value, base) if told and base else ""
    parts = four_digits(value), delta, "*" if best else ""
    return Span(" ".join(part for part in parts if part), GOOD if best else PLAIN)


def full_change(new: float, old: float) -> str:
    """Return a change with as many digits as say something: +2.6 %, -54 %."""
    if new == old:
        return "="
    percent = (new / old - 1) * 100 if old else float("nan")
    if percent != percent:
        return ""
    return f"{percent:+.1f} %" if abs(percent) < 10 else f"{percent:+,.0f} %"
