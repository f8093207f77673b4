"""An index of the records, so that a list of thousands need not read each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISLNK
from typing import Any

from workbench.runs.events import RunStatus
from workbench.store_files import first_damage
from workbench.store_index import Stamp, StoreIndex
from workbench.store_json import RecordError, load_json, safe_name

Description = Mapping[str, Any]

_FORMAT = 2
_NAME = ".index.json"
_LISTED = (
    "number",
    "preset",
    "group",
    "status",
    "message",
    "created",
    "ended",
    "pid",
    "summary",
)


def listed_descriptions(root: Path) -> list[tuple[str, Stamp, Description]]:
    """Return the name, a stamp and what lists show of every record."""
    index = StoreIndex(root / _NAME, _FORMAT)
    listed: list[tuple[str, Stamp, Description]] = []
    for name, stamp in _stamps(root):
        known = index.get(name, stamp)
        if not isinstance(known, dict):
            known = describe(root / name, deep=False)
            index.put(name, stamp, known)
        listed.append((name, stamp, known))
    index.write(name for name, _, _ in listed)
    return listed


def describe(directory: Path, *, deep: bool) -> Description:
    """Return what lists show of a record; of a damaged one, what is wrong with it."""
    if wrong := first_damage(directory, deep=deep):
        return _damaged(f"{directory} is damaged: {wrong}")
    try:
        whole = load_json(directory / "run.json")
    except RecordError as error:
        return _damaged(str(error))
    listed = {key: whole[key] for key in _LISTED if key in whole}
    return {**listed, "epochs_wanted": _epochs_wanted(whole.get("spec"))}


def _epochs_wanted(tables: Any) -> int:
    """Return the epochs of an experiment; 0 for a script, which trains as it likes."""
    train = tables.get("train") if isinstance(tables, dict) else None
    wanted = train.get("epochs") if isinstance(train, dict) else None
    return wanted if type(wanted) is int and "script" not in tables else 0


def _damaged(message: str) -> Description:
    return {"status": RunStatus.DAMAGED.value, "message": message}


def _stamps(root: Path) -> Iterator[tuple[str, Stamp]]:
    """Return every record, and what changes when its files do."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in sorted(filter(safe_name, os.listdir(descriptor))):
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
    stamp = [file.st_mtime_ns, file.st_size, file.st_ino, directory.st_mtime_ns]
    with suppress(FileNotFoundError):
        events = os.lstat(f"{name}/metrics.jsonl", dir_fd=root)
        stamp += [events.st_mtime_ns, events.st_size]
    return stamp
