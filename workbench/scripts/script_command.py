"""A script with its arguments, as `ipu-workbench exec` runs it."""

from __future__ import annotations

import os
import shlex
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
        words = [*self.options, self.file, *self.arguments]
        return shlex.join(["ipu-workbench", "exec", *words])

    def exec_words(self, *options: str) -> list[str]:
        """Return the command for a process that runs elsewhere, with more options."""
        file = str(self.path.absolute())
        return ["exec", *options, *self.options, file, *self.arguments]

    def capture_words(self, output: str) -> list[str]:
        """Return the command that captures the script to a file."""
        file = str(self.path.absolute())
        return ["capture", "--output", output, file, "--", *self.arguments]


def recorded_command(script: Mapping[str, Any]) -> ScriptCommand | None:
    """Return the command of a record's `script` table; None if it has none."""
    file, directory = script.get("file"), script.get("directory")
    arguments = script.get("arguments")
    if not isinstance(file, str) or not isinstance(arguments, list):
        return None
    known = isinstance(directory, str) and Path(directory).is_dir()
    words = tuple(str(item) for item in arguments)
    return ScriptCommand(file, words, str(directory) if known else "")
