"""The points of a sweep: a table that can be sorted, and a map of two axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ipu_runtime.plan.quantities import (
    count,
    duration,
    four_decimals,
    four_digits,
    microseconds,
    share,
)
from ipu_runtime.reports.document import (
    BAD,
    GOOD,
    MARK,
    MUTED,
    Bar,
    Cell,
    Column,
    Document,
    Note,
    Row,
    Section,
    Span,
    Table,
)
from workbench.comparing.run_names import short_names
from workbench.sweeps.sweep_point import HIGHER_IS_BETTER, PointResult
from workbench.sweeps.sweep_record import SweepDefinition
from workbench.sweeps.sweep_surface import Surface, surface

_SHADES = "·░▒▓█"
_REASONS_SHOWN = 10
_MEMORY = "memory_fraction"


@dataclass(frozen=True, slots=True)
class SweepColumn:
    """A column that points can be sorted by: of an axis, or of a metric."""

    title: str
    key: str
    show: Callable[[float], str] | None = None
    """How a metric is written; None for an axis."""

    def order(self, result: PointResult) -> tuple[bool, float, str]:
        """Return what to sort a point by, ascending; points without it come last."""
        if self.show is not None:
            value = result.metrics.get(self.key)
            sign = -1.0 if self.key in HIGHER_IS_BETTER else 1.0
            known = value is not None and not result.problem
            return (not known, sign * value if known and value is not None else 0.0, "")
        text = result.values[self.key]
        try:
            return False, float(text), ""
        except ValueError:
            return False, 0.0, text


_PLANNED = (
    SweepColumn("samples/s", "samples_per_second", count),
    SweepColumn("per batch", "ipu_us_per_batch", microseconds),
    SweepColumn("bubble", "bubble_fraction", share),
    SweepColumn("memory", _MEMORY, share),
    SweepColumn("IPUs", "ipus", count),
)
_TRAINED = (
    SweepColumn("loss", "loss_last", four_decimals),
    SweepColumn("accuracy", "accuracy_last", four_decimals),
    SweepColumn("on test", "test_accuracy", four_decimals),
    SweepColumn("samples/s", "samples_per_second", count),
    SweepColumn("time", "seconds", duration),
)
_HALVED = (*_TRAINED[:-1], SweepColumn("epochs", "epochs", count))
"""Of points that were stopped early it matters when."""


def sweep_columns(definition: SweepDefinition, by: str = "") -> tuple[SweepColumn, ...]:
    """Return the axes, then the metrics, the one that ranks first of them."""
    names = short_names([axis.path for axis in definition.axes])
    metrics: tuple[SweepColumn, ...] = _TRAINED if definition.trained else _PLANNED
    if definition.halving is not None:
        metrics = _HALVED
    if by and by not in [column.key for column in metrics]:
        metrics = (SweepColumn(by, by, four_digits), *metrics)
    return (*(SweepColumn(name, path) for path, name in names.items()), *metrics)


def sorted_points(
    results: Sequence[PointResult], column: SweepColumn, reverse: bool
) -> list[PointResult]:
    """Return the points in the order of a column, those that cannot run last."""
    good = sorted(
        (result for result in results if not result.problem),
        key=lambda result: (column.order(result), result.index),
    )
    wrong = sorted((r for r in results if r.problem), key=lambda r: r.index)
    return [*(reversed(good) if reverse else good), *wrong]


def points_table(
    points: Sequence[PointResult],
    columns: Sequence[SweepColumn],
    best: PointResult | None = None,
    titles: Sequence[str] = (),
    *,
    with_runs: bool = False,
) -> Table:
    """Return a row for every point; what cannot run says why.

    Args:
        best: The point that is marked.
        titles: Of the columns, if they are others: the sorted one has a mark.
        with_runs: Whether the run of every point is named, and how it ended.
    """
    shown: list[Column] = [Column()]
    for column, title in zip(
        columns, titles or [c.title for c in columns], strict=True
    ):
        metric = column.show is not None
        shown.append(Column(title, right=metric, least=0 if metric else 4))
        if column.key == _MEMORY:
            shown.append(Column(bar=(4, 6), rank=1))
    if with_runs:
        shown += [Column("ended"), Column("run")]
    rows = [_row(point, columns, point is best, with_runs) for point in points]
    return Table(tuple(shown), tuple(rows), noun="point")


def _row(
    point: PointResult, columns: Sequence[SweepColumn], best: bool, with_runs: bool
) -> Row:
    cells: list[Cell] = [Span("*" if best else "", GOOD)]
    tone = GOOD if best else ""
    for column in columns:
        if column.show is None:
            cells.append(point.values[column.key])
        elif not point.problem:
            value = point.metrics.get(column.key)
            cells.append(Span("-" if value is None else column.show(value), tone))
            if column.key == _MEMORY:
                cells.append(Bar(value or 0.0, tone or "filled"))
    if point.problem:
        cells.append(Span(point.problem, BAD))
    elif with_runs:
        epoch = point.stopped_epoch
        cells += [f"stopped early, epoch {epoch}" if epoch else "finished"]
        cells += [point.run_id]
    return Row(tuple(cells), key=str(point.index))


def sweep_document(
    definition: SweepDefinition,
    results: Sequence[PointResult],
    best: Sequence[PointResult],
    by: str,
    most: int,
    file: str,
) -> Document:
    """Return the best points of a sweep, and why others cannot run.

    Args:
        best: Valid points, the best first.
        by: What they are ranked by.
        most: How many of the best are shown.
        file: Where all of them are.
    """
    shown = best[:most]
    note = "" if definition.trained else ", modelled"
    title = f"best {len(shown)} of {len(best):,} valid points by {by}{note}"
    columns = sweep_columns(definition, by)
    table = points_table(shown, columns, with_runs=definition.trained)
    notes = (Note(text, hanging=2) for point in shown for text in _notes(point))
    sections = [Section(title, (table, *notes))]
    if not best:
        text = "no point is valid" if results else "no point is done"
        sections = [Section("", (Note(text),))]
    wrong = [result for result in results if result.problem]
    reasons = [
        Note(f"{_values(result)}: {result.problem}", hanging=2, whole_words=True)
        for result in wrong[:_REASONS_SHOWN]
    ]
    if (more := len(wrong) - len(reasons)) > 0:
        reasons.append(Note(f"and {more:,} more, in {file}", whole_words=True))
    if wrong:
        sections.append(Section(f"{len(wrong):,} points are not valid", tuple(reasons)))
    return Document("", tuple(sections))


def _values(result: PointResult) -> str:
    return " ".join(f"{path}={value}" for path, value in result.values.items())


def _notes(result: PointResult) -> Iterator[str]:
    """Yield what a number of stages has set besides, and what that trains otherwise."""
    values = _values(result)
    if result.changes:
        yield f"{values} also sets {', '.join(result.changes)}"
    for text in result.training:
        yield f"{values} trains otherwise: {text}"


def map_section(
    results: Sequence[PointResult], definition: SweepDefinition, column: SweepColumn
) -> Section:
    """Return the metric over the two axes that change it most, darker is better."""
    found = surface(results, definition.axes, column.key)
    if found is None or column.show is None:
        return Section("", ())
    names = short_names([axis.path for axis in definition.axes])
    if found.across is None:
        words = f"{column.title} by {names[found.down.path]}"
        return Section("", (Note(words, MUTED), _bars(found, column)))
    words = (
        f"{column.title} by {names[found.down.path]} (down) and "
        f"{names[found.across.path]} (across), best of all else; darker is better"
    )
    across = found.across.values
    rows = [
        Row((down, *(_shaded(found, column, down, other) for other in across)))
        for down in found.down.values
    ]
    columns = (
        Column(least=4),
        *(Column(value, right=True, rank=at) for at, value in enumerate(across)),
    )
    return Section("", (Note(words, MUTED), Table(columns, tuple(rows))))


def _bars(found: Surface, column: SweepColumn) -> Table:
    show, most = column.show or str, max(found.best.values())
    rows = []
    for value in found.down.values:
        good = found.share(value, "", column.key)
        reached = 0.0 if good is None else found.best[value, ""]
        tone = GOOD if good == 1 else "filled"
        bar = Bar(reached / most if most else 0.0, tone)
        rows.append(Row((value, bar, "-" if good is None else show(reached))))
    columns = Column(least=4), Column(bar=(10, 60)), Column()
    return Table(columns, tuple(rows))


def _shaded(found: Surface, column: SweepColumn, down: str, across: str) -> Cell:
    good = found.share(down, across, column.key)
    if good is None or column.show is None:
        return Span("-", MUTED)
    shade = _SHADES[round(good * (len(_SHADES) - 1))]
    number = column.show(found.best[down, across])
    return Span(number), Span(f" {shade}", MARK if good == 1 else "")
