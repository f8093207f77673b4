"""Runs whose turn has not come, kept for the case that the app goes before."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from stat import S_ISDIR
from typing import Any

from workbench.locations import NoHomeError, waiting_directory
from workbench.store_files import (
    make_directory,
    make_root,
    names_in,
    remove_tree,
    status_of,
)
from workbench.store_json import (
    RecordError,
    WriterLock,
    explained,
    has_writer,
    read_json,
    replace_json,
)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run as it was asked for."""

    preset: str
    tables: Mapping[str, Any]
    """The experiment as nested tables."""
    resume: str | None
    """Id of the run that it goes on with."""


class WaitingRuns:
    """The queue of one app: a directory with a lock, so that others leave it alone."""

    def __init__(self) -> None:
        self._lock: WriterLock | None = None
        self._kept: list[WaitingRun] = []

    def keep(self, runs: Sequence[WaitingRun]) -> None:
        """Write which runs wait, if they are others than before."""
        if list(runs) == self._kept:
            return
        if self._lock is None:
            directory = waiting_directory() / os.urandom(6).hex()
            with explained(directory):
                make_root(directory.parent)
                make_directory(directory)
            self._lock = WriterLock(directory / "lock")
        rows = [
            {"preset": run.preset, "spec": run.tables, "resume": run.resume}
            for run in runs
        ]
        replace_json(self._lock.path.with_name("runs.json"), {"runs": rows})
        self._kept = list(runs)

    def release(self) -> None:
        """Leave what waits to the next app."""
        if self._lock is not None:
            if not self._kept:
                with suppress(OSError):
                    remove_tree(self._lock.path.parent)
            self._lock.release()
            self._lock = None

    def adopt(self) -> list[WaitingRun]:
        """Take over what apps have left that are gone, oldest first."""
        found: list[WaitingRun] = []
        with suppress(OSError, NoHomeError):
            root = waiting_directory()
            left = [(status_of(root / name), name) for name in names_in(root)]
            ages = [
                (status.st_mtime, name)
                for status, name in left
                if status and S_ISDIR(status.st_mode)
            ]
            for _, name in sorted(ages):
                directory = root / name
                if has_writer(directory / "lock"):
                    continue
                with suppress(RecordError):
                    lock = WriterLock(directory / "lock")
                    runs = _read(read_json(directory / "runs.json") or {})
                    self.keep([*self._kept, *runs])
                    found += runs
                    remove_tree(directory)
                    lock.release()
        return found


def _read(content: Mapping[str, Any]) -> list[WaitingRun]:
    rows = content.get("runs")
    return [
        WaitingRun(str(row.get("preset", "")), row["spec"], row.get("resume"))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("spec"), dict)
    ]
