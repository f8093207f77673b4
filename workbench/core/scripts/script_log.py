"""What a script prints, on its way to the terminal and into the record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from workbench.core.runs.record_files import explained

_MOST_CHARACTERS = 20_000_000
_FULL = "... the log is full: the rest of the output is not kept\n"


class ScriptLog:
    """A file of whole lines; of a line that is drawn again the last state counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = ""
        self._lines: list[str] = []
        self._room = _MOST_CHARACTERS

    def add(self, text: str) -> None:
        """Take in a piece of output."""
        *whole, self._line = (self._line + text).split("\n")
        self._lines += [_as_seen(line) for line in whole]
        if "\r" in self._line:
            self._line = self._line[self._line.rstrip("\r").rfind("\r") + 1 :]

    def write(self, *, rest: bool = False) -> None:
        """Append the lines that are complete, and with `rest` what is left."""
        if rest and self._line:
            self._lines.append(_as_seen(self._line))
            self._line = ""
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        if not text or self._room <= 0:
            return
        if len(text) > self._room:
            text = text[: self._room] + "\n" + _FULL
        self._room -= len(text)
        with explained(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(text.encode(errors="replace").decode())


def _as_seen(line: str) -> str:
    """Return what stays of a line that carriage returns and backspaces rewrite."""
    return line.rstrip("\r").rpartition("\r")[2].replace("\b", "")


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
