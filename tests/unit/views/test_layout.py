"""Documents as lines of cells: what goes first where the width is small."""

from __future__ import annotations

import pytest

from ipu_runtime.reports.document import (
    Bar,
    Chart,
    Column,
    Document,
    Line,
    Note,
    Row,
    Section,
    Series,
    Span,
    Table,
    Tiles,
)
from workbench.views.cells import cell_width
from workbench.views.layout import TextStyle, document_text

NAMES = ("conv2d", "畳み込み層", "e\u0301tage", "🚀🚀")


def text(*parts: Note | Line | Table | Chart | Tiles, width: int = 80) -> list[str]:
    return document_text(Document("", (Section("", parts),)), TextStyle(width))


def table(*columns: Column, names: tuple[str, ...] = NAMES) -> Table:
    cells = [(name, "1.5 us", Bar(0.5), "12", "what it is") for name in names]
    return Table(columns, tuple(Row(row[: len(columns)]) for row in cells))


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_columns_stay_straight_below_wide_signs(width: int) -> None:
    columns = Column("layer", least=6), Column("time", right=True), Column(bar=(2, 9))
    lines = text(table(*columns, Column("stash", right=True)), width=width)
    ends = {cell_width(line[: line.index("12") + 2]) for line in lines[1:]}
    assert ends == {cell_width(lines[0].rstrip())}
    assert max(map(cell_width, lines)) <= width


def test_columns_go_by_their_rank_and_the_rest_has_the_room() -> None:
    columns = (
        Column("layer"),
        Column("time", right=True),
        Column(bar=(4, 20), rank=1),
        Column("stash", right=True, rank=2),
        Column("words", least=5, fills=True),
    )
    wide, *_ = text(table(*columns), width=80)
    assert wide.split() == ["layer", "time", "stash", "words"]
    first, *rows = text(table(*columns), width=31)
    assert first.split() == ["layer", "time", "words"]
    assert "██" in rows[0]
    assert rows[0].endswith("what…")
    narrow, *rows = text(table(*columns), width=24)
    assert narrow.split() == ["layer", "time", "words"]
    assert "█" not in "".join(rows)


def test_a_short_row_has_the_rest_of_the_line() -> None:
    columns = Column("layer"), Column("time", right=True), Column("stash", right=True)
    rows = Row(("one", "1 us", "2")), Row(("two", "cannot be used: it is a test"))
    lines = text(Table(columns, rows), width=30)
    assert lines[2] == "two    cannot be used: it is…"


def test_long_tables_say_how_many_rows_are_left() -> None:
    rows = tuple(Row((str(at),)) for at in range(5))
    few = Table((Column(),), rows, most=3, noun="IPU")
    assert text(few) == ["0", "1", "2", "and 2 more IPUs"]


def test_a_waterfall_hangs_where_it_begins() -> None:
    rows = (
        Row(("a", Bar(1.0))),
        Row(("b", Bar(0.25, begin=0.5))),
        Row(("c", Bar(0.5))),
    )
    lines = text(Table((Column(), Column(bar=(8, 8))), rows))
    assert lines == ["a  ████████", "b      ██", "c  ████"]


def test_what_is_copied_is_not_broken_and_notes_are() -> None:
    words = "a long path/with/parts " * 3
    (line,) = text(Line((Span(words),)), width=20)
    assert line == words.rstrip()
    assert all(len(row) <= 20 for row in text(Note(words), width=20))


def test_curves_have_their_reading_and_signs_where_they_are_several() -> None:
    first = Series("one", (1.0, 2.0), (1.0, 2.0))
    second = Series("two", (1.0, 2.0), (2.0, 1.0))
    lines = text(Chart("loss", "epoch", (first, second), "They cross."))
    assert lines[:3] == ["They cross.", "● one", "▲ two"]
    assert "▲" in "".join(lines[3:])


def test_the_few_numbers_of_a_page_are_a_table_in_text() -> None:
    assert text(Tiles((("loss", "0.5"), ("time", "10 s")))) == [
        "loss   0.5",
        "time  10 s",
    ]
