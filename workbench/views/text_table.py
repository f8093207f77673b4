"""Aligned columns as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.views.cells import cell_width, pad


def table_lines(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> list[str]:
    """Return aligned lines; columns named in `left` start at the left."""
    widths = [
        max([cell_width(heading), *(cell_width(row[column]) for row in rows)])
        for column, heading in enumerate(headings)
    ]
    return [
        "  ".join(
            pad(text, width, right=column not in left)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (headings, *rows)
    ]
