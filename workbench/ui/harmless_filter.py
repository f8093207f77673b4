"""Keeps what comes from files from commanding the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from ipu_runtime.plain_text import is_plain, without_harmful


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
