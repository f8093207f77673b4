"""Compared runs as rows: fields that differ, then metrics with the best marked."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from workbench.core.compare import Comparison, MetricRow
from workbench.core.describe import figure
from workbench.core.draft import draft_fields, value_in, value_text
from workbench.core.field_differences import FieldDifference
from workbench.core.quantities import change
from workbench.ui.content.pieces import GOOD, HEADING, MARK, MUTED, Part, fit, line
from workbench.ui.themes import RUN_COLOURS, RUN_MARKERS, hex_colour
from workbench.ui.widgets.row_list import Row

_NAME_WIDTH = 30


def comparison_rows(
    comparison: Comparison, width: int, only_differences: bool, best: bool
) -> list[Row]:
    """Return the table, runs as columns."""
    count = len(comparison.runs)
    column = max(10, min(24, (width - _NAME_WIDTH) // max(1, count)))
    rows = [Row(_heading(comparison, column))]
    fields = comparison.fields if only_differences else _all_fields(comparison)
    rows.append(
        Row(line(("set differently" if only_differences else "fields", HEADING)))
    )
    if not fields:
        rows.append(Row(line(("  nothing: the runs have the same fields", MUTED))))
    differing = {item.path for item in comparison.fields}
    rows += [
        Row(_field(item, column, item.path in differing), item.path) for item in fields
    ]
    rows.append(Row(line(("what came of it", HEADING))))
    unwanted = "last" if best else "best"
    rows += [
        Row(_metric(row, column), row.key)
        for row in comparison.metrics
        if not row.key.endswith(unwanted)
    ]
    return rows


def sign_of(index: int) -> tuple[str, str]:
    """Return marker and colour of a run in table and chart."""
    colour = hex_colour(RUN_COLOURS[index % len(RUN_COLOURS)])
    return RUN_MARKERS[index % len(RUN_MARKERS)], f"bold {colour}"


def _heading(comparison: Comparison, column: int) -> Content:
    parts: list[Part] = [" " * _NAME_WIDTH]
    for index, run in enumerate(comparison.runs):
        sign, style = sign_of(index)
        parts += [(f"{sign} ", style), fit(run.preset, column - 3), " "]
    return line(*parts)


def _field(item: FieldDifference, column: int, differs: bool) -> Content:
    parts: list[Part] = [
        (fit(f"  {item.path}", _NAME_WIDTH - 1) + " ", "" if differs else MUTED)
    ]
    for value in item.values:
        text = "-" if value is None else value_text(value)
        parts.append((fit(text, column - 1) + " ", MARK if differs else MUTED))
    return line(*parts)


def _metric(row: MetricRow, column: int) -> Content:
    parts: list[Part] = [fit(f"  {row.name}", _NAME_WIDTH - 1) + " "]
    base = row.values[0]
    for index, value in enumerate(row.values):
        if value is None:
            parts.append((fit("-", column), MUTED))
            continue
        text = figure(value)
        if index and base:
            text += f" {change(value, base)}"
        if index == row.best_index:
            text += " best"
        style = GOOD if index == row.best_index else ""
        parts.append((fit(text, column - 1) + " ", style))
    return line(*parts)


def _all_fields(comparison: Comparison) -> tuple[FieldDifference, ...]:
    tables = [run.tables for run in comparison.runs]
    return tuple(
        FieldDifference(path, tuple(_value(table, path) for table in tables))
        for path in draft_fields()
    )


def _value(tables: Any, path: str) -> Any:
    return value_in(tables, path)


def legend(comparison: Comparison, width: int) -> Content:
    """Return what tells the runs apart: the fields that differ, not run numbers."""
    parts: list[Part] = [" "]
    room = max(12, width // max(1, len(comparison.runs)) - 4)
    for index, run in enumerate(comparison.runs):
        sign, style = sign_of(index)
        differing = [
            (item.path.rpartition(".")[2], value_text(item.values[index]))
            for item in comparison.fields
            if item.values[index] is not None and item.path != "experiment.name"
        ]
        text = ", ".join(f"{name}={value}" for name, value in differing) or run.run_id
        if len(text) > room:
            text = ", ".join(value for _, value in differing)
        parts += [(f"{sign} ", style), fit(text, min(room, len(text))), "   "]
    return line(*parts)
