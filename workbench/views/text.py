"""Documents as text for commands."""

from __future__ import annotations

from collections.abc import Iterable

from ipu_runtime.reports.document import Document, Part, Section
from workbench.views.layout import (
    TextStyle,
    document_lines,
    part_lines,
    plain_lines,
    section_lines,
)


def document_text(document: Document, style: TextStyle) -> list[str]:
    """Return the lines of a document."""
    return [line.rstrip() for line in plain_lines(document_lines(document, style))]


def sections_text(sections: Iterable[Section], style: TextStyle) -> list[str]:
    """Return the lines of sections, parted by empty lines."""
    return document_text(Document("", tuple(sections)), style)


def section_text(section: Section, style: TextStyle) -> list[str]:
    """Return the lines of one section."""
    return [line.rstrip() for line in plain_lines(section_lines(section, style))]


def part_text(part: Part, style: TextStyle) -> list[str]:
    """Return the lines of one part."""
    return [line.rstrip() for line in plain_lines(part_lines(part, style))]
