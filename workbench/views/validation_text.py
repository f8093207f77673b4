"""What `ipu-workbench validate` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from workbench.published.band_coverage import band_coverage
from workbench.published.published_figure import (
    published,
    source_number,
    sources,
)
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
from workbench.views.layout import TextStyle
from workbench.views.text_table import table_lines

_WIDE = 96
"""Columns from which a throughput's batch and source have room."""
_JOINED = "\0%"
"""A number is not parted from its sign."""
_LEFT = ("model", "system", "framework", "what", "ratio", "positions", "figure")


def validation_lines(style: TextStyle) -> Iterator[str]:
    """Yield everything that is published beside the model, and what it comes to."""
    room = style.width - 2
    dropped = ["fullest tile"] + ["batch", "source"] * (style.width < _WIDE)
    cycles = published()["cycles"]
    yield "Throughput in samples/s, and the band that all other rows make"
    yield from _grouped(_without(throughput_table(), dropped))
    if style.width < _WIDE:
        yield f"  ({_WIDE} columns also show batch and source, as --json does.)"
    yield from _wrapped(throughput_words(), room)
    yield from _wrapped(coverage_words(band_coverage()), room)
    yield ""
    yield "Ratios of these throughputs"
    yield from _indented(ratio_table())
    yield ""
    yield "Memory in bytes"
    yield from _grouped(memory_table())
    yield from _wrapped(memory_words(), room)
    yield ""
    number = source_number(cycles["source"])
    yield f"Matrix unit in cycles: {cycles['title']} (source {number})"
    yield from _indented(cycle_table())
    yield ""
    yield "Fitted, so no evidence: the tutorial of Keras that set constants"
    yield from _indented(fitted_table())
    yield ""
    yield "Published, too, and cannot be planned"
    for text in published()["not_planned"]:
        yield from _wrapped(f"- {text}", room, indent="  ")
    yield ""
    yield "Sources"
    for place, source in enumerate(sources(), 1):
        yield from _wrapped(f"{place:2}. {source}", room, indent="    ")


def _without(table: Table, dropped: Sequence[str]) -> Table:
    kept = [at for at, name in enumerate(table.headings) if name not in dropped]
    return Table(
        tuple(table.headings[at] for at in kept),
        [[row[at] for at in kept] for row in table.rows],
    )


def _grouped(table: Table) -> Iterator[str]:
    """Yield a table whose first column is a line above the rows that share it."""
    first, *lines = _indented(_without(table, table.headings[:1]))
    yield f" {first}"
    last = None
    for line, (title, *_) in zip(lines, table.rows, strict=True):
        if title != last:
            yield f"  {title}"
        last = title
        yield f" {line}"


def _indented(table: Table) -> Iterator[str]:
    left = [at for at, name in enumerate(table.headings) if name in _LEFT]
    for line in table_lines(table.headings, table.rows, left):
        yield f"  {line}"


def _wrapped(text: str, room: int, indent: str = "") -> Iterator[str]:
    joined = text.replace(" %", _JOINED)
    lines = textwrap.wrap(
        joined, room, subsequent_indent=indent, break_on_hyphens=False
    )
    for line in lines:
        yield f"  {line.replace(_JOINED, ' %')}"
