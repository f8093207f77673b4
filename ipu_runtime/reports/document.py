"""What there is to say of a thing, before it is known where it will be read.

A document is plain data: sections of notes, lines, tables with bars in their cells, and
charts. Whoever knows the thing (a plan, a run, a comparison) makes its document once;
text for commands, styled text for the app and HTML are three renderings of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PLAIN: Final = ""
STRONG: Final = "strong"
MUTED: Final = "muted"
HEADING: Final = "heading"
GOOD: Final = "good"
WARN: Final = "warn"
BAD: Final = "bad"
MARK: Final = "mark"
FILLED: Final = "filled"
"""Tones: what a text means beside its words. Text has none of them, the app colours,
HTML classes; none says anything that the words do not."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some words with a tone."""

    text: str
    tone: str = PLAIN


@dataclass(frozen=True, slots=True)
class Bar:
    """A share of the width of its column."""

    share: float
    tone: str = FILLED
    begin: float = 0.0
    """Where it begins, as a share too: bars of a waterfall hang in the air."""


Cell = str | Span | Bar | tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """How the cells of a column are laid out where the width is known."""

    title: str = ""
    right: bool = False
    """Whether its cells end at the same place, as numbers do."""
    least: int = 0
    """Cells of the screen to which its texts may be cut; 0 if they may not be."""
    bar: tuple[int, int] = (0, 0)
    """Least and most cells of its bars."""
    rank: int = 0
    """Where the width is too small, columns of the highest rank go first; 0 stays."""
    wraps: bool = False
    """Whether its texts go on in the next line where they are too long."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; with fewer cells than columns, its last one has the rest of the line."""

    cells: tuple[Cell, ...]
    tone: str = PLAIN
    """Of the cells that have none of their own."""
    key: str = ""
    """What a list with a cursor knows the row by."""
    below: tuple[Span, ...] = ()
    """Notes on lines of their own."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    """What all of it is; only a page that is read without its surroundings says it."""
    most: int = 0
    """Rows that a screen has room for, 0 for all; HTML has all."""
    noun: str = "row"
    """What a row is, for how many are left out."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence or two, broken into lines where the width is known."""

    text: str
    tone: str = PLAIN
    hanging: int = 0
    """Cells by which lines after the first are indented."""
    whole_words: bool = False
    """Whether names of fields and files in it stay whole though they are too long."""


@dataclass(frozen=True, slots=True)
class Line:
    """Words on one line, cut where the width ends."""

    spans: tuple[Span, ...]


Part = Note | Line | Table


@dataclass(frozen=True, slots=True)
class Section:
    """Some parts under a heading."""

    heading: str
    parts: tuple[Part, ...]
    aside: str = ""
    """What stands muted beside the heading."""


@dataclass(frozen=True, slots=True)
class Document:
    """All there is to say."""

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    """What it is of, in one line."""
