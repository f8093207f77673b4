"""A document as lines of cells for a width: what text and the app's Content share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ipu_runtime.reports.document import (
    HEADING,
    MUTED,
    PLAIN,
    Bar,
    Cell,
    Chart,
    Column,
    Document,
    Line,
    Note,
    Part,
    Row,
    Section,
    Span,
    StackedBars,
    Table,
    Tiles,
    Timeline,
)
from workbench.views.cells import bar, cell_width, cut, fit, pad, wrapped
from workbench.views.drawings import (
    LABELS,
    area_rows,
    level_sign,
    timeline_lines,
)

Spans = tuple[Span, ...]
"""One line of the screen."""
_GAP, _NARROW_GAP = "  ", " "
_TO_ASCII = str.maketrans("·±", "|~")
"""Signs of our own words; names are the user's."""


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How lines are laid out."""

    width: int = 100
    ascii_only: bool = False
    indent: int = 2
    """Cells before everything that stands under a heading."""
    spaced: bool = True
    """Whether an empty line parts the sections."""
    area_height: int = 10


def document_text(document: Document, style: TextStyle) -> list[str]:
    """Return a document as text for commands: words without their tones."""
    lines = document_lines(document, style)
    texts = ["".join(span.text for span in line).rstrip() for line in lines]
    return [text.translate(_TO_ASCII) for text in texts] if style.ascii_only else texts


def document_lines(document: Document, style: TextStyle) -> list[Spans]:
    """Return a whole document."""
    lines: list[Spans] = []
    if document.title:
        lines.append((Span(document.title, HEADING),))
    if document.subtitle:
        rows = wrapped(document.subtitle, style.width)
        lines += [(Span(row, MUTED),) for row in rows]
    for section in document.sections:
        if lines and style.spaced:
            lines.append(())
        lines += section_lines(section, style)
    return lines


def section_lines(section: Section, style: TextStyle) -> list[Spans]:
    """Return a section with its heading."""
    lines: list[Spans] = []
    if section.heading:
        lines += _heading(section, style)
    indent = style.indent if section.heading else 0
    inner = replace(style, width=style.width - indent)
    for part in section.parts:
        for line in part_lines(part, inner):
            lines.append((Span(" " * indent), *line) if indent and line else line)
    return lines


def _heading(section: Section, style: TextStyle) -> list[Spans]:
    """Return the heading, with as much of what stands beside it as there is room."""
    rows = [Span(row, HEADING) for row in wrapped(section.heading, style.width)]
    room = style.width - cell_width(rows[-1].text) - len(_GAP)
    if not section.aside or room < 1:
        return [(row,) for row in rows]
    aside = cut(section.aside, room, ascii_only=style.ascii_only)
    beside = Span(_GAP + aside, MUTED)
    return [*((row,) for row in rows[:-1]), (rows[-1], beside)]


def part_lines(part: Part, style: TextStyle) -> list[Spans]:
    """Return a part of a section without its indentation."""
    match part:
        case Note():
            rows = wrapped(
                part.text,
                style.width,
                hanging=part.hanging,
                whole_words=part.whole_words,
            )
            return [(Span(row, part.tone),) for row in rows]
        case Line():
            return [part.spans]
        case Table():
            return TableLayout.of(part, style).lines()
        case Timeline():
            drawn = timeline_lines(part, style.width, ascii_only=style.ascii_only)
            return [(Span(row),) for row in drawn]
        case Chart():
            return _chart_lines(part, style)
        case StackedBars():
            return []
        case Tiles():
            figures = tuple(Row((name, value)) for name, value in part.pairs)
            columns = Column(), Column(right=True)
            return part_lines(Table(columns, figures), style)


def _chart_lines(chart: Chart, style: TextStyle) -> list[Spans]:
    """Return a chart with its reading: an area, or curves that are drawn."""
    ascii_only = style.ascii_only
    if not any(series.filled for series in chart.series):
        # Late: drawing loads plotext, 80 ms that no text without curves should pay.
        from workbench.charts.plotting import curves

        drawn = curves(chart, min(style.width, 100), ascii_only=ascii_only)
        return [*part_lines(Note(chart.reading), style), *((Span(x),) for x in drawn)]
    width = max(style.width - LABELS, 8)
    rows = area_rows(chart, width, style.area_height, ascii_only=ascii_only)
    sign = level_sign(ascii_only=ascii_only)
    for text in (chart.reading, f"{sign} {chart.level_reading}"):
        rows += part_lines(Note(text), style)
    return rows


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table whose columns have their widths."""

    table: Table
    style: TextStyle
    shown: tuple[int, ...]
    """Which columns there is room for."""
    widths: tuple[int, ...]
    gap: str

    @classmethod
    def of(cls, table: Table, style: TextStyle) -> TableLayout:
        """Give columns the width that their cells take, or that is left for them.

        Where that is too much, in this order: columns of a rank above 1 go, gaps
        shrink, columns of rank 1 go, texts are cut. Columns that fill, and bars, then
        have what is left over.
        """
        shown = list(range(len(table.columns)))
        natural = [_natural(table, at) for at in shown]
        gap = _GAP
        while True:
            widths = [natural[at] for at in shown]
            over = sum(widths) + len(gap) * (len(shown) - 1) - style.width
            ranks = [table.columns[at].rank for at in shown]
            if over <= 0:
                break
            if gap == _GAP and max(ranks) < 2:
                gap = _NARROW_GAP
            elif max(ranks):
                # Of several with one rank, the last.
                rank = max(ranks)
                del shown[len(ranks) - 1 - ranks[::-1].index(rank)]
            else:
                break
        columns = [table.columns[at] for at in shown]
        if over > 0:
            widths = _cut_widths(columns, widths, over)
        else:
            wanted = [_wanted(table, at) for at in shown]
            widths = _grown(widths, wanted, -over)
        return cls(table, style, tuple(shown), tuple(widths), gap)

    def lines(self) -> list[Spans]:
        """Return headings and rows, and how many rows are left out."""
        table, lines = self.table, self.heading_lines()
        shown = table.rows[: table.most] if table.most else table.rows
        for row in shown:
            lines += self.row_lines(row)
        if left := len(table.rows) - len(shown):
            noun = table.noun if left == 1 else f"{table.noun}s"
            lines.append((Span(f"and {left} more {noun}", MUTED),))
        return lines

    def heading_lines(self) -> list[Spans]:
        """Return the headings, if there are any."""
        columns = [self.table.columns[at] for at in self.shown]
        if not any(column.title for column in columns):
            return []
        cells = [
            [Span(fit(column.title, width, column.right), MUTED)]
            for column, width in zip(columns, self.widths, strict=True)
        ]
        return [self._joined(cells, MUTED)]

    def row_lines(self, row: Row) -> list[Spans]:
        """Return a row; texts that wrap give it further lines."""
        every = len(self.table.columns)
        rest = len(row.cells) - 1 if len(row.cells) < every else every
        blocks: list[list[list[Span]]] = []
        for at, width in zip(self.shown, self.widths, strict=True):
            if at > rest:
                break
            column = self.table.columns[at]
            if at == rest:
                used = sum(self.widths[: len(blocks)]) + len(self.gap) * len(blocks)
                width, column = self.style.width - used, Column()
            blocks.append(self._cell(row.cells[at], column, width, row.tone))
        height = max(map(len, blocks), default=0)
        lines = []
        for line in range(height):
            cells = [
                block[line] if line < len(block) else [Span(" " * _width(block[0]))]
                for block in blocks
            ]
            lines.append(self._joined(cells, row.tone))
        return [*lines, *((Span("     "), note) for note in row.below)]

    def _cell(
        self, cell: Cell, column: Column, width: int, tone: str
    ) -> list[list[Span]]:
        """Return the lines of a cell, each as wide as its column."""
        if isinstance(cell, Bar):
            return [[Span(self._bar(cell, width), cell.tone)]]
        spans = _spans(cell, tone)
        if column.wraps and len(spans) == 1:
            rows = wrapped(spans[0].text, width)
            return [[Span(pad(row, width), spans[0].tone)] for row in rows]
        if len(spans) == 1:
            text = cut(spans[0].text, width, ascii_only=self.style.ascii_only)
            return [[Span(pad(text, width, right=column.right), spans[0].tone)]]
        blank = Span(" " * max(0, width - _width(spans)))
        return [[blank, *spans] if column.right else [*spans, blank]]

    def _bar(self, cell: Bar, width: int) -> str:
        ascii_only = self.style.ascii_only
        if not cell.begin:
            return bar(cell.share, width, ascii_only=ascii_only)
        begin = min(round(cell.begin * width), width - 1)
        length = max(1, round((cell.begin + cell.share) * width) - begin)
        return pad(" " * begin + ("#" if ascii_only else "█") * length, width)

    def _joined(self, cells: Sequence[Sequence[Span]], tone: str) -> Spans:
        """Put cells beside each other, without blanks at the end."""
        line: list[Span] = []
        for number, cell in enumerate(cells):
            if number:
                line.append(Span(self.gap, tone))
            line += cell
        return _stripped(line)


def _natural(table: Table, at: int, *, whole: bool = False) -> int:
    """Return the cells that a column takes at least: bars, their least.

    Args:
        whole: Count the texts of a column that fills, too.
    """
    column = table.columns[at]
    if column.fills and not whole:
        return max(cell_width(column.title), column.least)
    return max(
        cell_width(column.title),
        *(
            _cell_natural(row.cells[at], column)
            for row in table.rows
            # The last cell of a short row is as wide as the rest of the line.
            if at < len(row.cells) - (len(row.cells) < len(table.columns))
        ),
        0,
    )


def _cell_natural(cell: Cell, column: Column) -> int:
    if isinstance(cell, Bar):
        return column.bar[0]
    return _width(_spans(cell, PLAIN))


def _cut_widths(columns: list[Column], widths: list[int], over: int) -> list[int]:
    """Take from the widest of the columns that may be cut, until all fit."""
    widths = list(widths)
    while over > 0:
        room = [
            width - column.least if column.least else 0
            for column, width in zip(columns, widths, strict=True)
        ]
        possible = [at for at, left in enumerate(room) if left > 0]
        if not possible:
            break
        widest = max(possible, key=lambda at: widths[at])
        widths[widest] -= 1
        over -= 1
    return widths


def _wanted(table: Table, at: int) -> int:
    """Return the cells that a column has use for: bars, their most."""
    column = table.columns[at]
    return max(column.bar[1], _natural(table, at, whole=True))


def _grown(widths: list[int], wanted: list[int], left: int) -> list[int]:
    """Share out what is left over to the columns that have use for more."""
    grown = list(widths)
    growing = [at for at, width in enumerate(widths) if wanted[at] > width]
    for number, at in enumerate(growing):
        more = min(wanted[at] - grown[at], left // (len(growing) - number))
        grown[at] += more
        left -= more
    return grown


def _spans(cell: str | Span | tuple[Span, ...], tone: str) -> list[Span]:
    match cell:
        case str():
            return [Span(cell, tone)]
        case Span():
            return [cell if cell.tone else Span(cell.text, tone)]
    return [span if span.tone else Span(span.text, tone) for span in cell]


def _width(spans: Sequence[Span]) -> int:
    return sum(cell_width(span.text) for span in spans)


def _stripped(line: list[Span]) -> Spans:
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        line[-1] = Span(line[-1].text.rstrip(), line[-1].tone)
    return tuple(line)
