"""Compared runs as rows: what came of them, then what was set differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from textual.content import Content

from ipu_runtime.plan.quantities import plural
from ipu_runtime.reports.document import HEADING, MARK, MUTED
from workbench.comparing.compare import Comparison, MetricRow
from workbench.comparing.model_words import layer_words, model_words
from workbench.comparing.run_names import short_names, value_words
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_differences import FieldDifference, flatten
from workbench.experiment.tables import value_in
from workbench.runs.run_store import StoredRun
from workbench.ui.themes import RUN_COLOURS, RUN_MARKERS, hex_colour
from workbench.ui.widgets.row_list import Row
from workbench.views.cells import cell_width, cut, fit, fit_apart, wrapped
from workbench.views.comparison import differences, full_change, metric_cell
from workbench.views.content import StyledPart, line, lines

MODEL = "model"
_NAME_WIDTH = 29
_COLUMN, _WIDEST = 17, 30
"""A number with its whole change fits into the narrowest column."""
_HEADING_LINES = 3
_LEGEND_LINES = 3


@dataclass(frozen=True, slots=True)
class CompareView:
    """What of a comparison is looked at."""

    baseline: int = 0
    """The run that changes are told against; its column comes first."""
    column: int = 0
    """The run under the cursor."""
    only_differences: bool = True
    best: bool = True
    unfolded: bool = False
    """Whether the layers of the model are shown."""


@dataclass(frozen=True, slots=True)
class _Columns:
    shown: tuple[int, ...]
    """Runs by their place in the comparison, as far as there is room."""
    width: int
    hidden: int

    def cells(self, text_of: Callable[[int], tuple[str, str]]) -> list[StyledPart]:
        """Return the cells of a row; each has a text and a style."""
        cells = [text_of(index) for index in self.shown]
        texts = fit_apart([text for text, _ in cells], self.width - 1)
        styles = [style for _, style in cells]
        return [(f"{t} ", style) for t, style in zip(texts, styles, strict=True)]


def column_order(comparison: Comparison, baseline: int) -> list[int]:
    """Return the runs as columns: the baseline, then the others as marked."""
    others = (at for at in range(len(comparison.runs)) if at != baseline)
    return [baseline, *others]


def comparison_rows(comparison: Comparison, width: int, view: CompareView) -> list[Row]:
    """Return the table, runs as columns."""
    columns = _columns(comparison, width, view)
    rows = _heading(comparison, columns, view)
    which = "best values" if view.best else "last values"
    rows.append(_section("what came of it", which, columns))
    rows += [
        Row(_metric(row, columns, view.baseline), row.key)
        for row in metrics_shown(comparison, view.best)
    ]
    title = "set differently" if view.only_differences else "fields"
    rows.append(_section(title, "", columns))
    fields = fields_shown(comparison, view.only_differences)
    names = short_names([item.path for item in fields])
    differing = {item.path for item in comparison.settings}
    for item in fields:
        whole = len(item.path) < _NAME_WIDTH - 2
        name = item.path if whole else names[item.path]
        rows.append(Row(_field(item, name, columns, item.path in differing), item.path))
    if comparison.model_differs:
        rows += _model(comparison, columns, view.unfolded)
    elif not fields:
        rows.append(Row(line(("  nothing: the runs have the same fields", MUTED))))
    return rows


def metrics_shown(comparison: Comparison, best: bool) -> list[MetricRow]:
    """Return the numbers that are shown: of best and last one of the two."""
    unwanted = "last" if best else "best"
    return [row for row in comparison.metrics if not row.key.endswith(unwanted)]


def fields_shown(
    comparison: Comparison, only_differences: bool
) -> tuple[FieldDifference, ...]:
    """Return what differs, presets included, or all fields."""
    shown = differences(comparison)
    if not only_differences:
        others = {item.path for item in shown}
        shown += tuple(
            FieldDifference(path, tuple(_value(run, path) for run in comparison.runs))
            for path in FIELD_OF_PATH
            if path not in others
        )
    return shown


def _value(run: StoredRun, path: str) -> object:
    """Return a field's value; what a script's record leaves out is not known."""
    known = not run.script or path in flatten(run.tables)
    return value_in(run.tables, path) if known else None


def sign_of(index: int) -> tuple[str, str]:
    """Return marker and colour of a run in table and chart."""
    colour = hex_colour(RUN_COLOURS[index % len(RUN_COLOURS)])
    return RUN_MARKERS[index % len(RUN_MARKERS)], f"bold {colour}"


def _columns(comparison: Comparison, width: int, view: CompareView) -> _Columns:
    order = column_order(comparison, view.baseline)
    room = width - _NAME_WIDTH
    column = max(_COLUMN, min(_WIDEST, room // len(order)))
    count = max(1, min(len(order), room // column))
    # The baseline stays; the others move so that the cursor's column is seen.
    at = order.index(view.column) if view.column in order else 0
    first = max(1, at - count + 2) if count > 1 else at
    shown = (
        [*order[:1], *order[first : first + count - 1]] if count > 1 else [order[at]]
    )
    return _Columns(tuple(shown), column, len(order) - len(shown))


def _heading(comparison: Comparison, columns: _Columns, view: CompareView) -> list[Row]:
    names = comparison.names
    fields = wrapped(", ".join(short_names(names.paths).values()), _NAME_WIDTH - 3)
    texts = [
        wrapped(names.values[index], columns.width - 4)[:_HEADING_LINES]
        for index in columns.shown
    ]
    rows = []
    for number, (left, *cells) in enumerate(zip_longest(fields, *texts, fillvalue="")):
        if number == _HEADING_LINES:
            break
        parts: list[StyledPart] = [(fit(f"  {left}", _NAME_WIDTH), MUTED)]
        for index, text in zip(columns.shown, cells, strict=True):
            sign, style = sign_of(index)
            chosen = " reverse" if index == view.column else ""
            parts.append((f"{sign} " if number == 0 else "  ", style))
            parts += [(fit(text, columns.width - 3), f"bold{chosen}"), " "]
        rows.append(Row(line(*parts)))
    begun = columns.cells(
        lambda at: (
            f"  {names.begun[at]}" if at != view.baseline else "  baseline",
            MARK if at == view.baseline else MUTED,
        )
    )
    label = fit(f"  begun {names.day}", _NAME_WIDTH)
    return [*rows, Row(line((label, MUTED), *begun))]


def _section(title: str, note: str, columns: _Columns) -> Row:
    hidden = plural(columns.hidden, "more run")
    more = f"   ←→ {hidden}" if columns.hidden and note else ""
    note = f"   {note}, * is the best" if note else ""
    return Row(line((title, HEADING), (f"{note}{more}", MUTED)))


def _metric(row: MetricRow, columns: _Columns, baseline: int) -> Content:
    def cell(index: int) -> tuple[str, str]:
        span = metric_cell(row, index, baseline)
        return span.text, span.tone

    return line(fit(f"  {row.name}", _NAME_WIDTH - 1) + " ", *columns.cells(cell))


def _field(
    item: FieldDifference, name: str, columns: _Columns, differs: bool
) -> Content:
    differs = differs or item.path == "preset"
    return line(
        (fit(f"  {name}", _NAME_WIDTH - 1) + " ", "" if differs else MUTED),
        *columns.cells(
            lambda at: (
                value_words(item.path, item.values[at]),
                MARK if differs else MUTED,
            )
        ),
    )


def _model(comparison: Comparison, columns: _Columns, unfolded: bool) -> list[Row]:
    words = [model_words(model) for model in comparison.models]
    arrow = "▾" if unfolded else "▸"
    name = fit(f"  {MODEL} {arrow} enter", _NAME_WIDTH)
    rows = [Row(line(name, *columns.cells(lambda at: (words[at], MARK))), MODEL)]
    if not unfolded:
        return rows
    for number, texts in enumerate(layers_beside(comparison)):
        differs = len(set(texts)) > 1
        style = MARK if differs else MUTED
        cells = columns.cells(lambda at, t=texts, s=style: (t[at], s))  # type: ignore[misc]
        key = f"{MODEL} {number}"
        rows.append(Row(line((fit(f"    {number}", _NAME_WIDTH), MUTED), *cells), key))
    return rows


def layers_beside(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the layers of all models, those of the same place side by side."""
    models = [
        [layer_words(layer) for layer in model.stage_layers] if model else []
        for model in comparison.models
    ]
    return list(zip_longest(*models, fillvalue="-"))


def row_in_full(
    comparison: Comparison, key: str, view: CompareView, width: int
) -> Content:
    """Return every cell of a row with nothing cut, one run after the other."""
    rows: list[Content] = []
    for index in column_order(comparison, view.baseline):
        sign, style = sign_of(index)
        name, *more = wrapped(comparison.names.names[index], width - 2)
        rows.append(line((f"{sign} ", style), (name, "bold")))
        rows += [line((f"  {text}", "bold")) for text in more]
        for text in _full_cell(comparison, key, index, view.baseline):
            rows += [line(f"  {part}") for part in wrapped(text, width - 2)]
        rows.append(line(""))
    return lines(*rows[:-1])


def _full_cell(
    comparison: Comparison, key: str, index: int, baseline: int
) -> Sequence[str]:
    metric = next((row for row in comparison.metrics if row.key == key), None)
    if metric is not None:
        value, base = metric.values[index], metric.values[baseline]
        if value is None:
            return ["not known"]
        text = f"{value:.10g}"
        if metric.other_units:
            return [f"{text}   {metric.other_units}"]
        if base is None or index == baseline:
            return [text]
        return [f"{text}   {value - base:+.6g}   {full_change(value, base)}"]
    if key.startswith(f"{MODEL} "):
        return [layers_beside(comparison)[int(key.split()[1])][index]]
    item = next(item for item in fields_shown(comparison, False) if item.path == key)
    return [value_words(key, item.values[index])]


def legend(comparison: Comparison, width: int) -> Content:
    """Return what tells the runs apart; names of fields where there is room."""
    names = comparison.names
    rows = _legend_rows(names.names, width)
    if len(rows) > _LEGEND_LINES:
        rows = _legend_rows(names.values, width)
    return lines(*rows)


def _legend_rows(names: Sequence[str], width: int) -> list[Content]:
    rows: list[list[StyledPart]] = [[" "]]
    used = 1
    for index, name in enumerate(names):
        sign, style = sign_of(index)
        if used > 1 and used + cell_width(name) + 2 > width:
            rows.append([" "])
            used = 1
        rows[-1] += [(f"{sign} ", style), cut(name, width - 3), "   "]
        used += cell_width(name) + 5
    return [line(*parts) for parts in rows]
