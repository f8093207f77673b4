"""Reading files of unknown origin: never one that has no end, never too much."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a regular file; a pipe or a device, which may never end, is refused."""
    # Looked at first, because opening alone has an effect on some devices.
    check_regular(path, os.stat(path))
    # A pipe that has taken the file's place since then is not waited for.
    stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    try:
        check_regular(path, os.fstat(stream.fileno()))
    except OSError:
        stream.close()
        raise
    return stream


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a regular file that is not larger than some size."""
    with open_file(path) as stream:
        return read_at_most(stream, path, most_bytes)


def read_at_most(stream: BinaryIO, path: Path, most_bytes: int) -> bytes:
    """Return the bytes of an open file that is not larger than some size."""
    if os.fstat(stream.fileno()).st_size > most_bytes:
        text = f"it is larger than {_size(most_bytes)}"
        raise OSError(errno.EFBIG, text, str(path))
    return stream.read()


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last bytes of a regular file."""
    with open_file(path) as stream:
        return read_last(stream, most_bytes)


def read_last(stream: BinaryIO, most_bytes: int) -> bytes:
    """Return the last bytes of an open file."""
    end = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, end - most_bytes))
    return stream.read(most_bytes)


def check_regular(path: Path, status: os.stat_result) -> None:
    """Raise if what was found is a pipe, a device or a directory."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def _size(amount: int) -> str:
    return f"{amount >> 20} MiB" if amount >= 1 << 20 else f"{amount} bytes"
