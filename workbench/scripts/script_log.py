"""What a script prints, on its way to the terminal and into the record."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from workbench.store_files import open_to_append
from workbench.store_json import explained

_MOST_CHARACTERS = 20_000_000
_PIECE = 1 << 16
_FULL = "... the log is full: the rest of the output is not kept\n"


class ScriptLog:
    """A file of whole lines; of a line that is drawn again the last state counts.

    Text comes from any thread and costs no more memory than the file may take: what
    has no room in it any more is left out at once, however fast or long it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # A handler of a signal may print in the middle of a print.
        self._taking = threading.RLock()
        self._lines = io.StringIO()
        self._line = io.StringIO()
        self._drawn_again = False
        self._room = _MOST_CHARACTERS

    def add(self, text: str) -> None:
        """Take in a piece of output."""
        with self._taking:
            for start in range(0, len(text), _PIECE):
                if self._room < 0:
                    return
                first, *others = text[start : start + _PIECE].split("\n")
                self._extend(first)
                for part in others:
                    self._end_line()
                    self._extend(part)

    def _extend(self, part: str) -> None:
        """Add to the line, of which carriage returns and backspaces rewrite some."""
        shown = part.rstrip("\r")
        if shown:
            _, again, state = shown.rpartition("\r")
            if again or self._drawn_again:
                self._line = io.StringIO()
            left = max(0, self._room - self._line.tell())
            self._line.write(state.replace("\b", "")[:left])
            self._drawn_again = False
        self._drawn_again |= part != shown

    def _end_line(self) -> None:
        line, self._line = self._line.getvalue() + "\n", io.StringIO()
        self._drawn_again = False
        if len(line) > self._room >= 0:
            line = line[: self._room] + "\n" + _FULL
            self._room = 0
        self._room -= len(line)
        self._lines.write(line)

    def write(self, *, rest: bool = False) -> None:
        """Append the lines that are complete, and with `rest` what is left."""
        with self._taking:
            if rest and self._line.tell():
                self._end_line()
            text, self._lines = self._lines.getvalue(), io.StringIO()
        if text:
            with explained(self._path), open_to_append(self._path) as file:
                file.write(text.encode(errors="replace"))


@contextmanager
def copied_output(keep: Callable[[str], None]) -> Iterator[None]:
    """Hand on what goes through `sys.stdout` and `sys.stderr`.

    The streams stay the same objects, so that a script finds its terminal as it was.
    What native code and other processes print is not seen.
    """
    streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
    copying = [stream for stream in streams if _copy(stream, keep)]
    try:
        yield
    finally:
        for stream in copying:
            vars(stream).pop("write", None)


def _copy(stream: TextIO, keep: Callable[[str], None]) -> bool:
    original = stream.write

    def write(text: str, /) -> Any:
        count = original(text)
        keep(text)
        return count

    try:
        stream.write = write  # type: ignore[method-assign]
    except AttributeError:
        return False
    return True
