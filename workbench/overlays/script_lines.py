"""Where in a script something happens."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import ipu_runtime

_RUNTIME = Path(ipu_runtime.__file__).parent


class ScriptStopped(SystemExit):
    """Ends a script from inside, as its own `sys.exit` would."""


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """A line of a script, or of a module beside it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.relpath(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class ScriptCode:
    """The directory of a script: what lies in it is the user's own code."""

    folder: Path

    def line_now(self) -> ScriptLine | None:
        """Return the innermost line of the user's that is running."""
        frame = inspect.currentframe()
        while frame is not None:
            if self._owns(frame.f_code.co_filename):
                return ScriptLine(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return None

    def lines_of(self, error: BaseException) -> Iterator[ScriptLine]:
        """Return the user's lines that an error came through, outermost first."""
        entry: TracebackType | None = error.__traceback__
        while entry is not None:
            name = entry.tb_frame.f_code.co_filename
            if self._owns(name):
                yield ScriptLine(name, entry.tb_lineno)
            entry = entry.tb_next

    def _owns(self, name: str) -> bool:
        parents = Path(name).parents
        return (
            self.folder in parents
            and _RUNTIME not in parents
            and ("site-packages" not in name)
        )


def code_of(script: str) -> ScriptCode:
    """Return the code of a script and of the modules beside it."""
    return ScriptCode(Path(script).resolve().parent)
