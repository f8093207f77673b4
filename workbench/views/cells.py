"""Texts in cells of the screen: how wide they are, cut, padded and broken into lines.

[Note: cells, not code points]
A terminal gives a Chinese character or an emoji two cells, a combining accent none.
`len`, `str.ljust`, format widths and `textwrap` count code points: a column padded by
them is crooked below the first such name. Whatever may hold a name of a user's goes
through this module. It measures with `rich.cells`, because Textual draws with that: if
the two disagreed about a sign, the app's columns would be crooked in spite of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

_EIGHTHS = " ▏▎▍▌▋▊▉"


def cell_width(text: str) -> int:
    """Return the cells that a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Return a text of at most so many cells; a sign at its end says that more was."""
    if cell_width(text) <= width:
        return text
    mark = ".." if ascii_only else "…"
    room = width - len(mark)
    return _beginning(text, room) + mark if room >= 0 else mark[: max(0, width)]


def _beginning(text: str, width: int) -> str:
    # A wide sign that does not fit leaves a blank, which is no part of the text.
    return set_cell_size(text, width).rstrip() if width > 0 else ""


def _end(text: str, width: int) -> str:
    """Return the last signs of a text, as many as fit."""
    at = len(text)
    while at and cell_width(text[at - 1 :]) <= width:
        at -= 1
    return text[at:]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return a text of at least so many cells."""
    blanks = " " * max(0, width - cell_width(text))
    return blanks + text if right else text + blanks


def fit(text: str, width: int, right: bool = False) -> str:
    """Return a text of exactly so many cells."""
    return pad(cut(text, width), width, right=right)


def fit_apart(texts: Sequence[str], width: int) -> list[str]:
    """Return texts of exactly so many cells that stay different where they were.

    Those that would read the same are cut inside, so that their ends are seen.
    """
    fitted = {text: fit(text, width) for text in texts}
    for tail in range(width // 3, max(0, width - 1)):
        seen = list(fitted.values())
        alike = [text for text, short in fitted.items() if seen.count(short) > 1]
        if not alike:
            break
        fitted |= {text: _cut_inside(text, width, tail) for text in alike}
    return [fitted[text] for text in texts]


def _cut_inside(text: str, width: int, tail: int) -> str:
    if cell_width(text) <= width or not tail:
        return fit(text, width)
    end = _end(text, tail)
    begin = _beginning(text, width - 1 - cell_width(end))
    return pad(f"{begin}…{end}", width)


def wrapped(
    text: str, width: int, *, hanging: int = 0, whole_words: bool = False
) -> list[str]:
    """Return a text broken into lines at blanks; a word too long for one is broken.

    Args:
        hanging: Cells by which all lines but the first are indented.
        whole_words: Leave words too long for a line whole.
    """
    width = max(10, width)
    lines: list[str] = []
    line = ""
    for word in text.split():
        room = width - (hanging if lines else 0)
        longer = f"{line} {word}" if line else word
        if cell_width(longer) <= room:
            line = longer
            continue
        if line:
            lines.append(line)
        line = word
        if not whole_words and cell_width(word) > width - hanging:
            *whole, line = chop_cells(word, width - hanging)
            lines += whole
    lines.append(line)
    return [lines[0], *(" " * hanging + row for row in lines[1:])]


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """Return a bar of exactly so many cells, visible if there is anything at all."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return ("#" * max(round(share * width), share > 0)).ljust(width)
    eighths = max(round(share * width * 8), share > 0)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)
