"""Documents as HTML: pages of their own, and what a notebook shows."""

from __future__ import annotations

from ipu_runtime.reports.bar_chart import stacked_bars, timeline_chart
from ipu_runtime.reports.document import (
    BAD,
    GOOD,
    MUTED,
    STRONG,
    WARN,
    Bar,
    Cell,
    Chart,
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
from ipu_runtime.reports.line_chart import line_chart
from ipu_runtime.reports.markup import Html, figure, html, joined, page, tag, tiles

_CLASSES = {STRONG: "strong", MUTED: "faint", GOOD: "good", WARN: "warn", BAD: "bad"}
_BAR_WIDTH = 100


def document_page(document: Document, footer: str, title: str = "") -> str:
    """Return a document as the text of an HTML file.

    Args:
        title: Of the window; the document's own if it has none.
    """
    return page(title or document.title, document_parts(document), footer)


def document_parts(document: Document) -> list[Html]:
    """Return a document as parts of a page."""
    subtitle = tag("p", document.subtitle, class_="faint") if document.subtitle else ""
    sections = (section_html(section) for section in document.sections)
    return [tag("h1", document.title), joined([subtitle]), *sections]


def notebook_html(document: Document) -> str:
    """Return a document for a cell of a notebook, apart from the notebook's styles."""
    text = document_page(document, "")
    size = "width: 100%; height: 32rem; border: 0"
    return tag("iframe", srcdoc=text, sandbox="", style=size)


def section_html(section: Section) -> Html:
    """Return a section under its heading."""
    heading = Html("")
    if section.heading:
        aside = tag("small", f" {section.aside}") if section.aside else ""
        heading = tag("h2", section.heading, aside)
    parts = joined(map(part_html, section.parts))
    if section.folded:
        parts = tag("details", tag("summary", "show"), parts)
    return tag("section", heading, parts)


def part_html(part: Part) -> Html:
    """Return a part of a section."""
    match part:
        case Note():
            return tag("p", part.text, class_=_CLASSES.get(part.tone))
        case Line():
            return tag("p", tag("code", *map(_span, part.spans)))
        case Table():
            return _table(part)
        case Chart():
            below = f" Grey: {part.level_reading}." if part.level_reading else ""
            return figure(f"{part.reading}{below}", line_chart(part))
        case Timeline():
            return figure(part.reading, timeline_chart(part))
        case StackedBars():
            return figure(part.reading, stacked_bars(part))
        case Tiles():
            return tiles(part.pairs)


def _table(part: Table) -> Html:
    """Return a table; bars are drawn in their cells."""
    right = [column.right for column in part.columns]
    head = (
        tag("th", column.title, class_="n" if column.right else None)
        for column in part.columns
    )
    titled = any(column.title for column in part.columns)
    heading = tag("thead", tag("tr", *head)) if titled else ""
    body = tag("tbody", *(_row(row, right) for row in part.rows))
    caption = tag("caption", part.caption) if part.caption else ""
    return tag("div", tag("table", caption, heading, body), class_="wide")


def _row(row: Row, right: list[bool]) -> Html:
    cells = []
    for at, cell in enumerate(row.cells):
        last = at == len(row.cells) - 1
        # A row with fewer cells than columns has the rest of the line for its last.
        span = len(right) - at if last and len(right) - at > 1 else None
        style = "n" if right[at] and span is None else None
        below = (tag("div", _span(note)) for note in row.below) if at == 0 else ()
        cells.append(tag("td", _cell(cell), *below, class_=style, colspan=span))
    return tag("tr", *cells, class_=_CLASSES.get(row.tone))


def _cell(cell: Cell) -> Html:
    match cell:
        case str():
            return html(cell)
        case Span():
            return _span(cell)
        case Bar():
            return _bar(cell)
    return joined(map(_span, cell))


def _span(span: Span) -> Html:
    style = _CLASSES.get(span.tone)
    return tag("span", span.text, class_=style) if style else html(span.text)


def _bar(bar: Bar) -> Html:
    width = min(max(bar.share, 0.0), 1.0) * _BAR_WIDTH
    colour = {GOOD: "f2", BAD: "f1"}.get(bar.tone, "f0")
    drawn = tag(
        "rect",
        x=f"{bar.begin * _BAR_WIDTH:.2f}",
        y=0,
        width=f"{width:.2f}",
        height=10,
        class_=colour,
    )
    box = f"0 0 {_BAR_WIDTH} 10"
    return tag("svg", drawn, viewBox=box, class_="bar", preserveAspectRatio="none")
