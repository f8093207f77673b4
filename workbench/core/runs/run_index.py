"""An index of the records, so that a list of thousands need not read each of them.

It keeps what lists show, with the stamp of each `run.json` that it was read from. A
record whose stamp differs is read again; without an index, or with a broken one, all
are.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ipu_runtime.system.file_replacing import replace_file
from workbench.core.runs.record_files import read_json, safe_name

Description = Mapping[str, Any]
Index = Mapping[str, tuple[list[int], Description | None]]

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
_WORTH_WRITING = 20
"""Records that may be missing from the index: reading so few takes no time."""


def listed_descriptions(root: Path) -> list[tuple[str, Description]]:
    """Return the name and what lists show of every record, newest first."""
    known, settled = _read_index(root / _NAME), time.time_ns() - _SETTLED_NS
    listed: list[tuple[str, Description]] = []
    index: dict[str, tuple[list[int], Description]] = {}
    changes = 0
    for name in sorted(filter(safe_name, os.listdir(root)), reverse=True):
        stamp = _stamp(f"{root}/{name}/run.json")
        if stamp is None:
            continue
        known_stamp, description = known.get(name, ([], None))
        if known_stamp != stamp or description is None:
            description = _read_listed(root / name / "run.json")
            changes += stamp[0] < settled
        if description is not None:
            listed.append((name, description))
            if stamp[0] < settled:
                index[name] = (stamp, description)
    if changes + len(known.keys() - index.keys()) > _WORTH_WRITING:
        text = json.dumps({"format": _FORMAT, "records": index})
        # Nothing depends on it: a store that cannot be written can still be read.
        with suppress(OSError):
            replace_file(root / _NAME, text)
    return listed


def _stamp(path: str) -> list[int] | None:
    """Return what changes when a file is replaced or written."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _read_listed(path: Path) -> Description | None:
    whole = read_json(path)
    if whole is None:
        return None
    return {key: whole[key] for key in _LISTED if key in whole}


def _read_index(path: Path) -> Index:
    stamp = _stamp(str(path))
    return {} if stamp is None else _index_of(path, tuple(stamp))


@lru_cache(maxsize=1)
def _index_of(path: Path, stamp: tuple[int, ...]) -> Index:
    del stamp  # Part of the key: the app looks every other second.
    index = read_json(path, _MOST_BYTES) or {}
    records = index.get("records")
    if index.get("format") != _FORMAT or not isinstance(records, dict):
        return {}
    return {name: _row(row) for name, row in records.items()}


def _row(row: Any) -> tuple[list[int], Description | None]:
    if isinstance(row, list) and len(row) == 2 and isinstance(row[1], dict):
        return row[0], row[1]
    return [], None
