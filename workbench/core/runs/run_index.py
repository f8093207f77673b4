"""An index of the records, so that a list of thousands need not read each of them.

It keeps what lists show, with the stamp of each `run.json` that it was read from. A
record whose stamp differs is read again; without an index, or with a broken one, all
are.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISLNK
from typing import Any

from workbench.core.runs.events import RunStatus
from workbench.core.runs.record_files import (
    RecordError,
    load_json,
    read_json,
    safe_name,
)
from workbench.core.store_files import first_damage, replace_file, status_of

Description = Mapping[str, Any]
Stamp = list[int]
Index = Mapping[str, tuple[Stamp, Description | None]]

_FORMAT = 1
_NAME = ".index.json"
_MOST_BYTES = 512 * 2**20
_LISTED = (
    "preset",
    "group",
    "status",
    "message",
    "created",
    "ended",
    "pid",
    "summary",
)
_SETTLED_NS = 2 * 10**9
"""A file that is younger could change once more and keep its stamp."""
WORTH_WRITING = 20
"""Records that may be missing from the index: reading so few takes no time."""


def listed_descriptions(root: Path) -> list[tuple[str, Description]]:
    """Return the name and what lists show of every record, newest first."""
    known, settled = _read_index(root), time.time_ns() - _SETTLED_NS
    listed: list[tuple[str, Description]] = []
    index: dict[str, tuple[Stamp, Description]] = {}
    changes = 0
    for name, stamp in _stamps(root):
        known_stamp, description = known.get(name, ([], None))
        if known_stamp != stamp or description is None:
            description = describe(root / name, deep=False)
            changes += max(stamp) < settled
        listed.append((name, description))
        if max(stamp) < settled:
            index[name] = (stamp, description)
    if changes + len(known.keys() - index.keys()) > WORTH_WRITING:
        text = json.dumps({"format": _FORMAT, "records": index})
        # Nothing depends on it: a store that cannot be written can still be read.
        with suppress(OSError):
            replace_file(root / _NAME, text)
    return listed


def describe(directory: Path, *, deep: bool) -> Description:
    """Return what lists show of a record; of a damaged one, what is wrong with it."""
    if wrong := first_damage(directory, deep=deep):
        return _damaged(f"{directory} is damaged: {wrong}")
    try:
        whole = load_json(directory / "run.json")
    except RecordError as error:
        return _damaged(str(error))
    return {key: whole[key] for key in _LISTED if key in whole}


def _damaged(message: str) -> Description:
    return {"status": RunStatus.DAMAGED.value, "message": message}


def _stamps(root: Path) -> Iterator[tuple[str, Stamp]]:
    """Return every record, newest first, and what changes when its files do."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in sorted(filter(safe_name, os.listdir(descriptor)), reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError):
                yield name, _stamp(name, descriptor)
    finally:
        os.close(descriptor)


def _stamp(name: str, root: int) -> Stamp:
    directory = os.lstat(name, dir_fd=root)
    if S_ISLNK(directory.st_mode):
        return [directory.st_mtime_ns]
    # Replacing or adding a file changes its directory, writing to one itself.
    file = os.lstat(f"{name}/run.json", dir_fd=root)
    return [file.st_mtime_ns, file.st_size, file.st_ino, directory.st_mtime_ns]


def _read_index(root: Path) -> Index:
    status = status_of(root / _NAME)
    if status is None:
        return {}
    return _index_of(root / _NAME, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=1)
def _index_of(path: Path, stamp: tuple[int, ...]) -> Index:
    del stamp  # Part of the key: the app looks every other second.
    index = read_json(path, _MOST_BYTES) or {}
    records = index.get("records")
    if index.get("format") != _FORMAT or not isinstance(records, dict):
        return {}
    return {name: _row(row) for name, row in records.items()}


def _row(row: Any) -> tuple[Stamp, Description | None]:
    if isinstance(row, list) and len(row) == 2 and isinstance(row[1], dict):
        return row[0], row[1]
    return [], None
