"""Small parts of styled text: bars, padded cells, headings."""

from __future__ import annotations

from textual.content import Content

Part = str | Content | tuple[str, str]

MUTED = "$foreground-muted"
HEADING = "bold $primary"
BAD = "bold $error"
WARN = "$warning"
GOOD = "$success"
MARK = "bold $accent"

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"


def line(*parts: Part) -> Content:
    """Return parts as one line."""
    return Content.assemble(*parts)


def lines(*rows: Content | str) -> Content:
    """Return rows as one text."""
    return Content("\n").join(rows)


def bar(fraction: float, width: int) -> str:
    """Return a horizontal bar of exactly `width` cells."""
    eighths = round(min(max(fraction, 0.0), 1.0) * width * 8)
    if fraction > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    text = _FULL * full + (_EIGHTHS[rest] if rest else "")
    return text.ljust(width)


def fit(text: str, width: int, right: bool = False) -> str:
    """Return a text of exactly `width` cells."""
    if len(text) > width:
        text = text[: max(0, width - 1)] + "…" if width > 0 else ""
    return text.rjust(width) if right else text.ljust(width)


def plural(number: int, word: str) -> str:
    """Return a number with its word: 1 replica, 2 replicas."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def wrapped(text: str, width: int) -> list[str]:
    """Return a text cut into lines at spaces."""
    import textwrap

    return textwrap.wrap(text, max(10, width)) or [""]
