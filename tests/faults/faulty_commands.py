"""Commands of which the Nth call on a file of theirs fails, or ends the process."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.command_server import SHIM

KILLED = "killed"
FAULTS = {
    KILLED: 0,
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EACCES": errno.EACCES,
}
_LEFT_OUT = {
    KILLED: ("opendir",),
    "EACCES": ("write", "fsync", "opendir"),
    "ENOSPC": ("unlink", "opendir"),
}
"""What the system never says of a call, for permissions are looked at when it opens;
and for directories that are opened, which changes nothing, one error stands for all."""
_SOURCE = Path(__file__).with_name("shim.c")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str
    calls: tuple[str, ...]
    """Every call on a file below the home directory: `open /runs/...`."""

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def possible(fault: str, call: str) -> bool:
    """Tell whether a call can fail like this, and differently than otherwise."""
    return call.split()[0] not in _LEFT_OUT.get(fault, ())


class FaultyCommands:
    """Runs commands, one at a time."""

    def __init__(self, process: subprocess.Popen[str], answers: Path) -> None:
        self._process, self._answers = process, answers

    def __call__(
        self, home: Path, *arguments: str, at: int = 0, fault: str = KILLED
    ) -> Done:
        """Run a command in a home directory; the call number `at` fails, 0: none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "home": str(home),
            "arguments": arguments,
            "at": at,
            "error": FAULTS[fault],
            "answers": str(self._answers),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        texts = [
            (self._answers / name).read_text(encoding="utf-8", errors="replace")
            for name in ("stdout", "stderr", "calls")
        ]
        return Done(code, texts[0], texts[1], tuple(texts[2].splitlines()))


def compiled_shim(compiler: str, directory: Path) -> Path:
    """Return the shim as a library."""
    library = directory / "shim.so"
    words = [compiler, "-O2", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return library


@contextmanager
def faulty_commands(shim: Path) -> Iterator[FaultyCommands]:
    """Start what runs the commands; it ends with this context."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), SHIM: str(shim)}
    with (
        tempfile.TemporaryDirectory() as answers,
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.command_server"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield FaultyCommands(process, Path(answers))
        assert process.stdin is not None
        process.stdin.close()
