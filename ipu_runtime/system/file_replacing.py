"""Writing a file as a whole, for everything that this project writes."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

_LAST_STREAM = 2
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.new")


def replace_file(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader sees the old or the new one, never a part.

    Links are followed; the mode is kept, and so is the owner where that is allowed. A
    device, a pipe, or the file that this process prints to is written instead of
    replaced.
    """
    try:
        if _written_in_place(path):
            with path.open("ab") as stream:
                stream.write(_bytes(content))
            return
        real = Path(os.path.realpath(path))
        parent = os.open(real.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            replace_in(parent, real.name, content)
        finally:
            os.close(parent)
    except OSError as error:
        # The user knows this name, not that of the file beside it.
        raise OSError(error.errno, error.strerror, str(path)) from error


def replace_in(directory: int, name: str, content: bytes | str) -> None:
    """Write a file of an open directory as a whole; a link of that name is replaced."""
    beside = f".{os.urandom(8).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = beyond_streams(os.open(beside, flags, 0o666, dir_fd=directory))
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _keep_owner_and_mode(directory, name, descriptor)
            stream.write(_bytes(content))
            stream.flush()
            os.fsync(descriptor)
        os.replace(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=directory)
        raise
    # Without it a crash can undo the renaming. Some file systems cannot; the file
    # itself is whole either way.
    with suppress(OSError):
        os.fsync(directory)


def beyond_streams(descriptor: int) -> int:
    """Return a descriptor that nobody prints to.

    A file gets the lowest that is free, which is that of a stream where a script has
    closed one: what the script prints then would be written into the file.
    """
    if descriptor > _LAST_STREAM:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LAST_STREAM + 1)
    finally:
        os.close(descriptor)


def is_unfinished(name: str) -> bool:
    """Tell whether a file is what a killed writer has left beside its place."""
    return _UNFINISHED.fullmatch(name) is not None


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _written_in_place(path: Path) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode):
        return True
    for output in (1, 2):
        # A process may have been started without them.
        with suppress(OSError):
            if os.path.samestat(status, os.fstat(output)):
                return True
    return False


def _keep_owner_and_mode(directory: int, name: str, descriptor: int) -> None:
    try:
        old = os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return
    # Only root may give files away; for others it is theirs from now on.
    with suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    # Afterwards, because another owner takes special bits away.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
