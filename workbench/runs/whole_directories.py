"""Directories of records that appear and go as a whole, whenever a process is killed.

They are made and removed under hidden names. Who does either holds a lock on the
directory around them, which ends with the process: hidden names that nobody holds a
lock for are what killed processes have left.
"""

from __future__ import annotations

import errno
import fcntl
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from workbench.store_files import (
    exists,
    locked_directory,
    make_directory,
    names_in,
    remove_tree,
    rename,
)
from workbench.store_json import WriterLock, explained

_HIDDEN = re.compile(r"\..+\.(new|deleted)")


def claim_directory(directory: Path, fill: Callable[[Path], None]) -> WriterLock | None:
    """Make a directory with what `fill` writes, locked by us.

    None: somebody has or is taking the name.
    """
    staging = directory.with_name(f".{directory.name}.new")
    if exists(directory):
        return None
    with explained(directory), locked_directory(directory.parent, fcntl.LOCK_SH):
        try:
            make_directory(staging)
        except FileExistsError:
            return None
        lock = None
        try:
            lock = WriterLock(staging / "lock")
            fill(staging)
            # A directory that is not empty cannot be replaced: two cannot meet.
            rename(staging, directory.name)
        except BaseException as error:
            if lock is not None:
                lock.release()
            with suppress(OSError):
                remove_tree(staging)
            if isinstance(error, OSError) and error.errno == errno.ENOTEMPTY:
                return None
            raise
    return lock


def discard_directory(directory: Path) -> None:
    """Remove a directory: out of the lists at once, and as a whole."""
    gone = directory.with_name(f".{directory.name}.deleted")
    with explained(directory), locked_directory(directory.parent, fcntl.LOCK_SH):
        rename(directory, gone.name)
        remove_tree(gone)


def remove_leftovers(root: Path) -> None:
    """Remove what killed processes have left; later, if others are at work."""
    with (
        suppress(OSError),
        locked_directory(root, fcntl.LOCK_EX | fcntl.LOCK_NB),
    ):
        for name in filter(_HIDDEN.fullmatch, names_in(root)):
            remove_tree(root / name)
