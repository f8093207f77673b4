"""Aligned columns and bars as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How text is laid out."""

    width: int = 100
    ascii_only: bool = False


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> list[str]:
    """Return aligned lines; columns named in `left` start at the left."""
    widths = [
        max([len(heading), *(len(row[column]) for row in rows)])
        for column, heading in enumerate(headings)
    ]
    return [
        "  ".join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (headings, *rows)
    ]


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """Return a bar that fills its share of the width."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return "#" * round(share * width)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def shortened(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Return a text that is no longer than the width."""
    if len(text) <= width:
        return text
    mark = ".." if ascii_only else "…"
    return text[: max(width - len(mark), 0)] + mark
