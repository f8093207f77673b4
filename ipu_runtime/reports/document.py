"""What there is to say of a thing, before it is known where it will be read.

A document is plain data: sections of notes, lines, tables with bars in their cells, and
charts. Whoever knows the thing (a plan, a run, a comparison) makes its document once;
text for commands, styled text for the app and HTML are three renderings of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
    fills: bool = False
    """Whether it has what the others leave, and is cut to `least` before they go."""
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
    """Words on one line, never broken: paths, commands, rows of signs."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve of a chart; points that are not numbers leave a gap."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    colour: int = 0
    dots: bool = False
    """Whether its points are marked and not connected: it stands behind the others."""
    filled: bool = False
    """Whether what is below is filled."""
    hints: tuple[str, ...] = ()
    """What is at every point, besides its value."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves over one axis, and the sentence that reads them.

    Of two filled series the second is a level, which has one value: memory and what of
    it is always live. Such a chart is an area of characters in text.
    """

    title: str
    """What its values are."""
    x_title: str
    series: tuple[Series, ...]
    reading: str
    zero: bool = False
    """Whether the axis begins at 0."""
    show: Callable[[float], str] = "{:g}".format
    """How a value is written."""
    tick_unit: float = 1.0
    """Of which ticks are round multiples."""
    marks: tuple[tuple[int, str], ...] = ()
    """What begins at which point."""
    level_reading: str = ""
    """What the level of a filled chart is."""


@dataclass(frozen=True, slots=True)
class Task:
    """Something that lasts from one time to another."""

    start: float
    end: float
    slot: int
    """Place among what is done at the same time."""
    label: str
    kind: int
    """Place in the legend of its timeline."""
    hint: str


@dataclass(frozen=True, slots=True)
class Lane:
    """What happens in one place, one after the other."""

    name: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Who does what when: by slots where characters draw it, by time in HTML.

    Of long ones the lanes have both ends, because what is between them repeats.
    """

    lanes: tuple[Lane, ...]
    total: float
    slots: int
    regions: tuple[tuple[int, tuple[str, ...]], ...]
    """First slots of its parts, each with names of different lengths."""
    legend: tuple[tuple[str, str], ...]
    """Letter and meaning of every kind of task."""
    ending: str
    """What all lanes do at the end."""
    show: Callable[[float], str]
    """How a time is written."""
    reading: str


@dataclass(frozen=True, slots=True)
class StackedRow:
    """One bar made of parts."""

    name: str
    parts: Mapping[str, float]
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class StackedBars:
    """Bars of parts side by side, which only HTML draws: a table has their figures."""

    rows: tuple[StackedRow, ...]
    show: Callable[[float], str]
    """How a value is written."""
    reading: str
    tick_unit: float = 1.0
    """Of which ticks are round multiples."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The few numbers that matter most: names and values."""

    pairs: tuple[tuple[str, str], ...]


Part = Note | Line | Table | Chart | Timeline | StackedBars | Tiles


@dataclass(frozen=True, slots=True)
class Section:
    """Some parts under a heading."""

    heading: str
    parts: tuple[Part, ...]
    aside: str = ""
    """What stands muted beside the heading."""
    folded: bool = False
    """Whether a page shows it only when it is opened."""


@dataclass(frozen=True, slots=True)
class Document:
    """All there is to say."""

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    """What it is of, in one line."""


def muted(section: Section) -> Section:
    """Return the same in grey: figures that are not those of the present values."""

    def quiet(part: Part) -> Part:
        if isinstance(part, Note):
            return replace(part, tone=MUTED)
        if not isinstance(part, Table):
            return part
        return replace(part, rows=tuple(_quiet_row(row) for row in part.rows))

    return replace(section, parts=tuple(map(quiet, section.parts)))


def _quiet_row(row: Row) -> Row:
    cells: list[Cell] = []
    for cell in row.cells:
        if isinstance(cell, str):
            cells.append(cell)
        elif isinstance(cell, tuple):
            cells.append("".join(span.text for span in cell))
        else:
            cells.append(replace(cell, tone=MUTED))
    return replace(row, cells=tuple(cells), tone=MUTED)
