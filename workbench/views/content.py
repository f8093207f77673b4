"""Documents as styled text for the app: the one place that knows Textual."""

from __future__ import annotations

from textual.content import Content

from ipu_runtime.reports.document import (
    BAD,
    FILLED,
    GOOD,
    HEADING,
    MARK,
    MUTED,
    PLAIN,
    STRONG,
    WARN,
    Document,
    Section,
    Table,
)
from workbench.views.layout import (
    Spans,
    TableLayout,
    TextStyle,
    document_lines,
    section_lines,
)

_CURSOR = "  "
StyledPart = str | Content | tuple[str, str]

_STYLES = {
    PLAIN: "",
    STRONG: "bold",
    MUTED: "$foreground-muted",
    HEADING: "bold $primary",
    GOOD: "$success",
    WARN: "$warning",
    BAD: "bold $error",
    MARK: "bold $accent",
    FILLED: "$primary",
}


def style_of(tone: str) -> str:
    """Return how a tone looks; a style of Textual's stays what it is."""
    return _STYLES.get(tone, tone)


def line(*parts: StyledPart) -> Content:
    """Return parts as one line; pairs are a text and its tone."""
    return Content.assemble(
        *(
            (part[0], style_of(part[1])) if isinstance(part, tuple) else part
            for part in parts
        )
    )


def lines(*rows: Content | str) -> Content:
    """Return rows as one text."""
    return Content("\n").join(rows)


def styled(spans: Spans) -> Content:
    """Return one laid out line."""
    return line(*((span.text, span.tone) for span in spans))


def app_style(width: int, *, ascii_only: bool = False) -> TextStyle:
    """Return the layout of the app's panels, which have no room to lose."""
    return TextStyle(width, ascii_only, indent=0, spaced=False)


def document_content(document: Document, style: TextStyle) -> Content:
    """Return a document as one text."""
    return lines(*map(styled, document_lines(document, style)))


def listed(table: Table, width: int) -> tuple[Content, list[tuple[str, Content]]]:
    """Return headings and rows for a list, which has its cursor at the left edge.

    Rows are pairs of their key and their line; notes below them are left out.
    """
    layout = TableLayout.of(table, TextStyle(width - len(_CURSOR)))
    head = lines(*(line(_CURSOR, styled(row)) for row in layout.heading_lines()))
    return head, [
        (row.key, line(_CURSOR, styled(layout.row_lines(row)[0]))) for row in table.rows
    ]


def section_rows(section: Section, style: TextStyle) -> list[Content]:
    """Return the lines of a section."""
    return [styled(row) for row in section_lines(section, style)]
