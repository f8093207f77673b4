"""What is changed in every line that is drawn: for safety, and for plain terminals."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter, NoColor

from ipu_runtime.reports.plain_text import is_plain, without_harmful

_SIMPLE = {
    "·": ".", "•": "*", "●": "o", "▲": "^", "■": "#", "◆": "x", "○": "o", "◌": "o",
    "✓": "+", "✗": "x", "▸": ">", "▾": "v", "▏": "|", "▎": "|", "▍": "|", "▌": "#",
    "←": "<", "→": ">", "↑": "^", "↓": "v", "…": "~", "µ": "u", "±": "~", "⚿": "L",
    "▶": ">", "›": ">", "❚": "|", "░": ".", "▒": ":", "▓": "#", "‖": "|",  # noqa: RUF001
}  # fmt: skip
_CORNERS = "┌┐└┘├┤┬┴┼╭╮╰╯╒╓╔╕╖╗╘╙╚╛╜╝┏┓┗┛┣┫┳┻╋"
_HORIZONTAL, _VERTICAL = "─━═╌┄╴╶", "│┃║╎┆╵╷"
_HEAVY_BLOCK, _LIGHT_BLOCK = 0x2584, 0x2581


class HarmlessFilter(LineFilter):
    """Takes control characters out of everything that is drawn.

    They take no cell, so a visible sign in their place would move what follows.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line without them; most lines are returned as they are."""
        if all(segment.control or is_plain(segment.text) for segment in segments):
            return segments
        return [
            segment
            if segment.control
            else Segment(without_harmful(segment.text), segment.style)
            for segment in segments
        ]


def _table() -> dict[int, str]:
    table = {ord(sign): plain for sign, plain in _SIMPLE.items()}
    table |= {ord(sign): "+" for sign in _CORNERS}
    table |= {ord(sign): "-" for sign in _HORIZONTAL}
    table |= {ord(sign): "|" for sign in _VERTICAL}
    for code in range(0x2580, 0x25A0):
        table.setdefault(code, "_" if _LIGHT_BLOCK <= code < _HEAVY_BLOCK else "#")
    table[0x2594] = "-"
    for code in range(0x2800, 0x2900):
        table[code] = " " if code == 0x2800 else "*"
    return table


_PLAIN = _table()


class AsciiFilter(LineFilter):
    """`--ascii`: every cell that a plain terminal cannot show becomes one it can."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line with plain characters."""
        return [
            segment
            if segment.text.isascii()
            else Segment(
                segment.text.translate(_PLAIN).encode("ascii", "replace").decode(),
                segment.style,
                segment.control,
            )
            for segment in segments
        ]


# One of each for every frame: a line remembers by filter what it looks like.
HARMLESS, ASCII, NO_COLOR = HarmlessFilter(), AsciiFilter(), NoColor()
