"""Small parts of styled text: bars, padded cells, headings."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from workbench.planning.text_table import bar as plain_bar

Part = str | Content | tuple[str, str]

MUTED = "$foreground-muted"
HEADING = "bold $primary"
BAD = "bold $error"
WARN = "$warning"
GOOD = "$success"
MARK = "bold $accent"


def line(*parts: Part) -> Content:
    """Return parts as one line."""
    return Content.assemble(*parts)


def lines(*rows: Content | str) -> Content:
    """Return rows as one text."""
    return Content("\n").join(rows)


def bar(fraction: float, width: int) -> str:
    """Return a bar of exactly `width` cells, visible if there is anything at all."""
    least = 1 / (8 * width) if fraction > 0 else 0.0
    return plain_bar(max(fraction, least), width).ljust(width)


def fit(text: str, width: int, right: bool = False) -> str:
    """Return a text of exactly `width` cells."""
    if len(text) > width:
        text = text[: max(0, width - 1)] + "…" if width > 0 else ""
    return text.rjust(width) if right else text.ljust(width)


def fit_apart(texts: Sequence[str], width: int) -> list[str]:
    """Return texts of exactly `width` cells that stay different where they were.

    Those that would read the same are cut inside, so that their ends are seen.
    """
    cut = {text: fit(text, width) for text in texts}
    for tail in range(width // 3, max(0, width - 1)):
        seen = list(cut.values())
        alike = [text for text, short in cut.items() if seen.count(short) > 1]
        if not alike:
            break
        cut |= {text: _cut_inside(text, width, tail) for text in alike}
    return [cut[text] for text in texts]


def _cut_inside(text: str, width: int, tail: int) -> str:
    if len(text) <= width or not tail:
        return fit(text, width)
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def wrapped(text: str, width: int) -> list[str]:
    """Return a text cut into lines at spaces."""
    import textwrap

    return textwrap.wrap(text, max(10, width)) or [""]
