"""Runs whose turn has not come, kept for the case that the app goes before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from workbench.core.locations import NoHomeError, waiting_directory
from workbench.core.runs.record_files import (
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
                directory.mkdir(parents=True)
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
                shutil.rmtree(self._lock.path.parent, ignore_errors=True)
            self._lock.release()
            self._lock = None

    def adopt(self) -> list[WaitingRun]:
        """Take over what apps have left that are gone, oldest first."""
        found: list[WaitingRun] = []
        with suppress(OSError, NoHomeError):
            left = [path for path in waiting_directory().iterdir() if path.is_dir()]
            for directory in sorted(left, key=lambda path: path.stat().st_mtime):
                if has_writer(directory / "lock"):
                    continue
                with suppress(RecordError):
                    lock = WriterLock(directory / "lock")
                    runs = _read(read_json(directory / "runs.json") or {})
                    self.keep([*self._kept, *runs])
                    found += runs
                    shutil.rmtree(directory, ignore_errors=True)
                    lock.release()
        return found


def _read(content: Mapping[str, Any]) -> list[WaitingRun]:
    rows = content.get("runs")
    return [
        WaitingRun(str(row.get("preset", "")), row["spec"], row.get("resume"))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("spec"), dict)
    ]
