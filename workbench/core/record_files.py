"""File operations of records: each either done completely or not at all."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.core.event_json import plain
from workbench.core.locations import data_directory

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_LOCK_PATIENCE_S = 1.0

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the directory is read-only",
    errno.EACCES: "no permission to write there",
    errno.EEXIST: "a file stands where a directory is needed",
    errno.ENOTDIR: "a file stands where a directory is needed",
}
_ELSEWHERE = (errno.EROFS, errno.EACCES, errno.EEXIST, errno.ENOTDIR)


class RecordError(Exception):
    """A record cannot be written or read; the text is fit for the user."""


class UnknownRecord(RecordError):
    """There is no record of that name."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into one sentence with a way out."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = _HINTS.get(error.errno or 0, "")
        if error.errno in _ELSEWHERE and path.is_relative_to(data_directory()):
            hint += ": choose another directory with IPU_WORKBENCH_HOME"
        raise RecordError(
            f"cannot write {path}: {reason}" + (f"; {hint}" if hint else "")
        ) from error


def safe_name(name: str) -> bool:
    """Tell whether a name can only mean an entry of the directory it is put in."""
    return _NAME.fullmatch(name) is not None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file so that a reader sees the old or the new one, never a part."""
    beside = path.with_name(f".{path.name}.new")
    with explained(path):
        try:
            with beside.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise


def replace_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file as a whole."""
    text = json.dumps(plain(value), indent=1, allow_nan=False)
    replace_file(path, text.encode() + b"\n")


def append_line(path: Path, line: str, *, sync: bool = False) -> None:
    """Append a line; one that a killed writer has cut stays on a line of its own."""
    with explained(path), path.open("ab+") as stream:
        end = stream.seek(0, os.SEEK_END)
        if end:
            stream.seek(end - 1)
            if stream.read(1) != b"\n":
                line = "\n" + line
        stream.write(line.encode())
        stream.flush()
        if sync:
            os.fsync(stream.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines, leaving out what is damaged."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


class WriterLock:
    """The right to write below a directory, held until released or the process ends.

    It is a lock of the operating system, so a killed process cannot keep it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with explained(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        # Whoever asks whether we live holds the lock for an instant.
        while not self._take():
            if time.monotonic() > deadline:
                owner = os.read(self._descriptor, 32).decode(errors="replace").strip()
                os.close(self._descriptor)
                raise RecordError(
                    f"{path.parent.name} is being written by process {owner or '?'}"
                )
            time.sleep(0.01)
        with explained(path):
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def _take(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others write."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def has_writer(path: Path) -> bool:
    """Tell whether a live process holds the lock of this file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
