"""What was read of many records, kept in one file: each row with a stamp of its files.

Nothing depends on it. One that is damaged, which a checksum tells, is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.store_files import read_file, replace_file, status_of

Stamp = list[int]
"""What changes when the files of a record are replaced or written."""
WORTH_WRITING = 20
"""Rows that may be missing: reading so few records takes no time."""
_MOST_BYTES = 512 * 2**20
_SETTLED_NS = 2 * 10**9
"""A file that is younger could change once more and keep its stamp."""


class StoreIndex:
    """Rows by the name of their record, to be looked up and then written."""

    def __init__(self, path: Path, version: int) -> None:
        """Read what is there; rows of another version say nothing."""
        self._path, self._version = path, version
        status = status_of(path)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino) if status else ()
        self._known = _read(path, version, stamp)
        self._rows: dict[str, Any] = {}
        self._new = 0
        self._settled = time.time_ns() - _SETTLED_NS

    def get(self, name: str, stamp: Stamp) -> Any:
        """Return what is kept of a record; None if it is not as it was then."""
        row = self._known.get(name)
        if not isinstance(row, list) or len(row) != 2 or row[0] != stamp:
            return None
        return row[1]

    def put(self, name: str, stamp: Stamp, value: Any) -> None:
        """Keep what was read of a record, unless its files are too young."""
        if max(stamp) < self._settled:
            self._rows[name] = [stamp, value]
            self._new += 1

    def write(self, names: Iterable[str]) -> None:
        """Write the rows of these records, if enough are new or of others."""
        present = set(names)
        gone = len(self._known.keys() - present)
        if self._new + gone > WORTH_WRITING:
            kept = {name: row for name, row in self._known.items() if name in present}
            rows = json.dumps(kept | self._rows)
            head = {"format": self._version, "sha256": _checksum(rows.encode())}
            # A store that cannot be written can still be read.
            with suppress(OSError):
                replace_file(self._path, f"{json.dumps(head)}\n{rows}\n")


@lru_cache(maxsize=2)
def _read(path: Path, version: int, stamp: tuple[int, ...]) -> Mapping[str, Any]:
    # The stamp is part of the key: the app looks every other second.
    if not stamp:
        return {}
    try:
        head_line, _, rows = read_file(path, _MOST_BYTES).partition(b"\n")
        head = json.loads(head_line)
        if head != {"format": version, "sha256": _checksum(rows.rstrip(b"\n"))}:
            return {}
        value = json.loads(rows)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
