"""The one way to files of the store: no link is followed, nothing is waited for.

[Note: files of the store]
A store, or a record in it, may have come from elsewhere: unpacked, copied, mounted. So
what is there may be a link to a file of the user's, on which `open` would write, or a
pipe, on which `open` would wait. Whatever reads or writes below the store goes through
here; tests/unit/test_store_files.py looks for what does not.

The directories that the user chooses may be links: the data directory, and `runs`,
`sweeps`, `drafts` and `waiting` in it. Below those every name is taken for itself: each
directory on the way is opened by its name in the one before (`dir_fd`, `O_NOFOLLOW`),
so that nothing can be exchanged between looking and opening. A link is never followed,
and never replaced by a file: what it stands for would be lost without a word. A file
with another name besides is read, but not written to: that may be a file of the user's,
or of a backup.

Libraries that are given a path (TensorFlow, for an estimator's checkpoints) follow
links. A record is therefore looked through as a whole before a run goes on with it:
`first_damage`.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ipu_runtime.plan.config.file_reading import check_regular, read_at_most, read_last
from ipu_runtime.system.file_replacing import (
    beyond_streams,
    is_unfinished,
    replace_in,
)
from workbench.locations import data_directory

LINK = "it is a link, which a record may not hold"
HARD_LINK = "it has another name too (a hard link), and would change under that as well"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_to_read(path: Path) -> BinaryIO:
    """Open a file for reading."""
    return os.fdopen(_open(path, os.O_RDONLY), "rb")


def open_to_append(path: Path, mode: int = 0o666) -> io.BufferedRandom:
    """Open a file for writing at its end and reading anywhere; make it if need be."""
    descriptor = _open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)
    return os.fdopen(descriptor, "ab+")


def open_to_overwrite(path: Path) -> io.BufferedRandom:
    """Open a file that is there for writing over what it holds."""
    return os.fdopen(_open(path, os.O_RDWR), "rb+")


def open_lock(path: Path, *, make: bool) -> int:
    """Return a descriptor of a file to lock."""
    return _open(path, os.O_RDWR | os.O_CREAT if make else os.O_RDONLY)


def read_file(path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file that is not larger than some size."""
    with open_to_read(path) as stream:
        return read_at_most(stream, path, most_bytes)


def read_end(path: Path, most_bytes: int) -> bytes:
    """Return the last bytes of a file."""
    with open_to_read(path) as stream:
        return read_last(stream, most_bytes)


def replace_file(path: Path, content: bytes | str) -> None:
    """Write a file so that a reader sees the old or the new one, never a part."""
    with _inside(path) as parent:
        with suppress(FileNotFoundError):
            _check(path, os.lstat(path.name, dir_fd=parent))
        replace_in(parent, path.name, content)


def remove_file(path: Path) -> None:
    """Remove a file or a link; one that is not there is fine."""
    with suppress(FileNotFoundError), _inside(path) as parent:
        os.unlink(path.name, dir_fd=parent)


def make_root(directory: Path) -> None:
    """Make a directory of the user's choice, with those above it."""
    directory.mkdir(parents=True, exist_ok=True)


def make_directory(path: Path, *, exist_ok: bool = False) -> None:
    """Make one directory."""
    with _inside(path) as parent:
        try:
            os.mkdir(path.name, dir_fd=parent)
        except FileExistsError:
            if not exist_ok or not _is_directory(path, parent):
                raise


def make_directories(top: Path, path: Path) -> None:
    """Make a directory, with those between it and one that is there."""
    for part in path.relative_to(top).parts:
        top /= part
        make_directory(top, exist_ok=True)


def rename(path: Path, name: str) -> None:
    """Give a file or directory another name in its directory."""
    with _inside(path) as parent:
        os.rename(path.name, name, src_dir_fd=parent, dst_dir_fd=parent)


def remove_tree(path: Path) -> None:
    """Remove a directory with all in it, or a link in its place."""
    with _inside(path) as parent:
        if not stat.S_ISDIR(os.lstat(path.name, dir_fd=parent).st_mode):
            os.unlink(path.name, dir_fd=parent)
            return
        for _, directories, files, descriptor in os.fwalk(
            path.name, topdown=False, onerror=_fail, dir_fd=parent
        ):
            for name in files:
                os.unlink(name, dir_fd=descriptor)
            for name in directories:
                _remove_empty(name, descriptor)
        os.rmdir(path.name, dir_fd=parent)


def _fail(error: OSError) -> None:
    """Let `os.fwalk` leave nothing out without a word."""
    raise error


def _remove_empty(name: str, parent: int) -> None:
    """Remove a directory without content; `os.fwalk` takes links to some for them."""
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)


def remove_unfinished(directory: Path) -> None:
    """Remove what killed writers have left here and below; none may be alive."""
    with _opened(directory) as descriptor:
        for _, _, files, below in os.fwalk(".", onerror=_fail, dir_fd=descriptor):
            for name in filter(is_unfinished, files):
                os.unlink(name, dir_fd=below)


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a file or directory itself; None if there is none."""
    try:
        with _inside(path) as parent:
            return os.lstat(path.name, dir_fd=parent)
    except OSError:
        return None


def exists(path: Path) -> bool:
    """Tell whether something has that name, be it a link that leads nowhere.

    Raises:
        OSError: It cannot be looked at, and may be there.
    """
    try:
        with _inside(path) as parent:
            os.lstat(path.name, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def size_of(path: Path) -> int:
    """Return the size of a regular file; 0 if there is none."""
    status = status_of(path)
    return status.st_size if status and stat.S_ISREG(status.st_mode) else 0


def is_directory(path: Path) -> bool:
    """Tell whether there is a directory of that name."""
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


@contextmanager
def locked_directory(directory: Path, operation: int) -> Iterator[None]:
    """Hold a lock on a directory itself; `operation` is one of `fcntl.flock`."""
    with _opened(directory) as descriptor:
        fcntl.flock(descriptor, operation)
        yield


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory, in order; none if it cannot be read."""
    try:
        return all_names_in(directory)
    except OSError:
        return []


def all_names_in(directory: Path) -> list[str]:
    """Return the names in a directory, in order; none if there is no directory."""
    try:
        with _opened(directory) as descriptor:
            return sorted(os.listdir(descriptor))
    except FileNotFoundError:
        return []


def files_below(directory: Path) -> list[Path]:
    """Return all regular files in a directory and below."""
    found = []
    with suppress(OSError), _opened(directory) as descriptor:
        for root, _, files, below in os.fwalk(".", dir_fd=descriptor):
            for name in files:
                if stat.S_ISREG(os.lstat(name, dir_fd=below).st_mode):
                    found.append(directory / root / name)
    return sorted(found)


def first_damage(directory: Path, *, deep: bool = True) -> str:
    """Return what in a record can be none of its parts; empty if all is well.

    Args:
        directory: Of the record.
        deep: Whether to look into its directories too.
    """
    try:
        with _opened(directory) as descriptor:
            for root, directories, files, below in os.fwalk(
                ".", onerror=_fail, dir_fd=descriptor
            ):
                for name in sorted(directories) + sorted(files):
                    if wrong := _kind(name, below):
                        shown = os.path.normpath(f"{root}/{name}")
                        return f"{shown} is {wrong}, which a record may not hold"
                if not deep:
                    break
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{error.strerror}"
    return ""


def _kind(name: str, parent: int) -> str:
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return ""  # Whoever works on the run has replaced it.
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _check(path: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, LINK, str(path))
    check_regular(path, status)


def _open(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a regular file."""
    with _inside(path) as parent:
        # Looked at first, because opening alone has an effect on some devices.
        with suppress(FileNotFoundError):
            _check(path, os.lstat(path.name, dir_fd=parent))
        # A pipe that has taken the file's place since then is not waited for.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = beyond_streams(os.open(path.name, flags, mode, dir_fd=parent))
    try:
        status = os.fstat(descriptor)
        _check(path, status)
        if flags & os.O_ACCMODE != os.O_RDONLY and status.st_nlink > 1:
            raise OSError(errno.EMLINK, HARD_LINK, str(path))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _inside(path: Path) -> Iterator[int]:
    """Hold the directory of a file; errors name the file."""
    try:
        with _opened(path.parent) as descriptor:
            yield descriptor
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Hold a directory, to which no link has led below the store."""
    start, steps = _way(directory)
    descriptor = os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            above = descriptor
            try:
                descriptor = os.open(step, _DIRECTORY, dir_fd=above)
            except NotADirectoryError:
                _is_directory(Path(step), above)
                raise
            os.close(above)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_directory(path: Path, parent: int) -> bool:
    """Tell whether a name is a directory; a link is refused."""
    mode = os.lstat(path.name, dir_fd=parent).st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, LINK.replace("it", path.name, 1), str(path))
    return stat.S_ISDIR(mode)


def _way(directory: Path) -> tuple[Path, tuple[str, ...]]:
    """Return where links may lead, and the names from there on."""
    store = data_directory()
    if not directory.is_relative_to(store):
        # The place that a run has on another machine, which was made for it.
        return directory, ()
    first, *steps = directory.relative_to(store).parts or ("",)
    if ".." in (first, *steps):
        raise OSError(errno.EINVAL, "it is not below the store", str(directory))
    return store / first, tuple(steps)
