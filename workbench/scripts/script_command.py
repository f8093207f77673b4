"""A script with its arguments, as `ipu-workbench exec` runs it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ScriptCommand:
    """What is run, and where."""

    file: str
    arguments: tuple[str, ...] = ()
    directory: str = ""
    """Where it runs; empty means here."""
    options: tuple[str, ...] = ()
    """Of `exec`: what is laid over the script."""

    @property
    def name(self) -> str:
        """How lists name it."""
        return Path(self.file).name

    @property
    def title(self) -> str:
        """Name and arguments."""
        return shlex.join([self.name, *self.arguments])

    @property
    def changes(self) -> tuple[str, ...]:
        """What the options say, without the options themselves."""
        return tuple(item for item in self.options if not item.startswith("--"))

    @property
    def path(self) -> Path:
        """The file, seen from here."""
        return Path(self.directory, os.path.expanduser(self.file))

    @property
    def tables(self) -> dict[str, Any]:
        """What a record begins with."""
        script = {
            "file": str(self.path.absolute()),
            "arguments": list(self.arguments),
            "directory": self.directory or os.getcwd(),
        }
        return {"script": script}

    @property
    def line(self) -> str:
        """The command as one types it."""
        return shlex.join(["ipu-workbench", "exec", *self._rest(self.file)])

    @property
    def process(self) -> list[str]:
        """The command as a process of its own; a folder's modules are not ours."""
        file = str(self.path.absolute())
        return [sys.executable, "-P", "-m", "workbench", "exec", *self._rest(file)]

    def _rest(self, file: str) -> list[str]:
        return [*self.options, file, *self.arguments]


def recorded_command(script: Mapping[str, Any]) -> ScriptCommand | None:
    """Return the command of a record's `script` table; None if it has none."""
    file, directory = script.get("file"), script.get("directory")
    arguments = script.get("arguments")
    if not isinstance(file, str) or not isinstance(arguments, list):
        return None
    known = isinstance(directory, str) and Path(directory).is_dir()
    words = tuple(str(item) for item in arguments)
    return ScriptCommand(file, words, str(directory) if known else "")
