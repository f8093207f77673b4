"""JSON in the store: records, notes, drafts, the queue, sweeps.

A file is replaced as a whole, or a line is appended to it; each is done completely or
not at all, through `store_files`. What cannot be read or written raises `RecordError`,
whose text is fit for the user.
"""

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

from ipu_runtime.plan.plain_data import plain
from workbench.locations import data_directory
from workbench.store_files import (
    open_lock,
    open_to_append,
    open_to_overwrite,
    open_to_read,
    read_file,
    replace_file,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_LOCK_PATIENCE_S = 1.0
MOST_BYTES = 16 * 2**20
_MOST_LINE_BYTES = 2**20

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


def replace_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file as a whole."""
    with explained(path):
        replace_file(path, _json_text(value))


def overwrite_json(path: Path, value: Mapping[str, Any]) -> bool:
    """Write over a file in the room that it has: a full disk has none for another."""
    content = _json_text(value).encode()
    try:
        with open_to_overwrite(path) as stream:
            if os.fstat(stream.fileno()).st_blocks * 512 < len(content):
                return False
            stream.write(content)
            stream.flush()
            os.ftruncate(stream.fileno(), len(content))
    except OSError:
        return False
    return True


def _json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"


def append_line(path: Path, line: str, *, sync: bool = False) -> None:
    """Append a line; one that a killed writer has cut stays on a line of its own."""
    with explained(path), open_to_append(path) as stream:
        end = stream.seek(0, os.SEEK_END)
        if end:
            stream.seek(end - 1)
            if stream.read(1) != b"\n":
                line = "\n" + line
        stream.write(line.encode())
        stream.flush()
        if sync:
            os.fsync(stream.fileno())


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say of what cannot be read why; it is not taken for absent."""
    try:
        yield
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def load_json(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the object in a JSON file, or say why there is none."""
    try:
        with readable(path):
            value = json.loads(read_file(path, most_bytes))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: it is not JSON") from error
    if not isinstance(value, dict):
        raise RecordError(f"{path} cannot be read: it holds no object")
    return value


def read_json(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if there is none that can be read."""
    try:
        return load_json(path, most_bytes)
    except RecordError:
        return None


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines, leaving out what is damaged."""
    try:
        with readable(path):
            stream = open_to_read(path)
    except RecordError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        raise
    with stream:
        whole = True
        while line := stream.readline(_MOST_LINE_BYTES):
            begins, whole = whole, line.endswith(b"\n")
            if not begins:
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                yield row


class WriterLock:
    """The right to write below a directory, held until released or the process ends.

    It is a lock of the operating system, so a killed process cannot keep it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with explained(path):
            self._descriptor = open_lock(path, make=True)
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
        try:
            with explained(path):
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except RecordError:
            self.release()
            raise

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
        descriptor = open_lock(path, make=False)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
