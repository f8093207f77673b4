"""The model beside everything published that it cites, as a document."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.reports.document import (
    Column,
    Document,
    Note,
    Part,
    Row,
    Section,
)
from ipu_runtime.reports.document import Table as Drawn
from workbench.published.band_coverage import band_coverage
from workbench.published.published_figure import published, source_number, sources
from workbench.published.published_tables import (
    Table,
    coverage_words,
    cycle_table,
    fitted_table,
    memory_table,
    memory_words,
    ratio_table,
    throughput_table,
    throughput_words,
)

_LEFT = ("model", "system", "framework", "what", "ratio", "positions", "figure")
_SIDE = ("batch", "source")
"""Of a throughput, which only wide windows have room for."""
_WIDE = 96


def validation_document(width: int) -> Document:
    """Return everything that is published beside the model, and what it comes to.

    Args:
        width: Of what it is shown in, to say what there is no room for.
    """
    cycles = published()["cycles"]
    throughputs: list[Part] = [_grouped(_without(throughput_table(), "fullest tile"))]
    if width < _WIDE:
        text = f"({_WIDE} columns also show batch and source, as --json does.)"
        throughputs.append(Note(text))
    words = throughput_words(), coverage_words(band_coverage())
    not_planned = (Note(f"- {text}", hanging=2) for text in published()["not_planned"])
    numbered = (
        Note(f"{place:2}. {source}", hanging=4)
        for place, source in enumerate(sources(), 1)
    )
    number = source_number(cycles["source"])
    return Document(
        "",
        (
            Section(
                "Throughput in samples/s, and the band that all other rows make",
                (*throughputs, *map(Note, words)),
            ),
            Section("Ratios of these throughputs", (_drawn(ratio_table()),)),
            Section(
                "Memory in bytes", (_grouped(memory_table()), Note(memory_words()))
            ),
            Section(
                f"Matrix unit in cycles: {cycles['title']} (source {number})",
                (_drawn(cycle_table()),),
            ),
            Section(
                "Fitted, so no evidence: the tutorial of Keras that set constants",
                (_drawn(fitted_table()),),
            ),
            Section("Published, too, and cannot be planned", tuple(not_planned)),
            Section("Sources", tuple(numbered)),
        ),
    )


def _without(table: Table, name: str) -> Table:
    shown = [at for at, heading in enumerate(table.headings) if heading != name]
    return Table(
        tuple(table.headings[at] for at in shown),
        [[row[at] for at in shown] for row in table.rows],
    )


def _columns(headings: Sequence[str]) -> tuple[Column, ...]:
    return tuple(
        Column(name, right=name not in _LEFT, rank=int(name in _SIDE))
        for name in headings
    )


def _drawn(table: Table) -> Drawn:
    return Drawn(_columns(table.headings), tuple(Row(tuple(row)) for row in table.rows))


def _grouped(table: Table) -> Drawn:
    """Return a table whose first column is a line above the rows that share it."""
    rows: list[Row] = []
    last = None
    for title, first, *rest in table.rows:
        if title != last:
            rows.append(Row((title,)))
        last = title
        rows.append(Row((f" {first}", *rest)))
    return Drawn(_columns(table.headings[1:]), tuple(rows))
