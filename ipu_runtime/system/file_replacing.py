"""Writing a file as a whole, for everything that this project writes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader sees the old or the new one, never a part.

    Links are followed; the mode is kept, and so is the owner where that is allowed. A
    device, a pipe, or the file that this process prints to is written instead of
    replaced.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if _must_be_kept(path):
            with path.open("ab") as stream:
                stream.write(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        # The user knows this name, not that of the file beside it.
        raise OSError(error.errno, error.strerror, str(path)) from error


def remove_unfinished(directory: Path) -> None:
    """Remove what killed writers have left here and below; none may be alive."""
    for beside in directory.rglob(f".{'?' * 16}.new"):
        beside.unlink(missing_ok=True)


def _must_be_kept(path: Path) -> bool:
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


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{os.urandom(8).hex()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _keep_owner_and_mode(path, descriptor)
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _keep_name(path.parent)


def _keep_owner_and_mode(path: Path, descriptor: int) -> None:
    try:
        old = path.stat()
    except FileNotFoundError:
        return
    # Only root may give files away; for others it is theirs from now on.
    with suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    # Afterwards, because another owner takes special bits away.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _keep_name(directory: Path) -> None:
    """Write the directory too, without which a crash can undo the renaming."""
    # Some file systems cannot; the file itself is whole either way.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
