"""What a run writes, so that nothing is lost however the run ends.

A record is a directory: `run.json` (replaced as a whole), `metrics.jsonl` (one event
per line, only ever appended), `run.log`, `plan.json` and `checkpoints/`; a script's has
`plans/` with one file per program.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from workbench.locations import runs_directory
from workbench.runs.event_json import event_line, event_to_json, to_line
from workbench.runs.events import EpochEnded, Evaluated, Event, RunEnded, RunStatus
from workbench.runs.whole_directories import claim_directory, remove_leftovers
from workbench.store_files import (
    first_damage,
    locked_directory,
    make_directory,
    make_root,
    names_in,
    open_to_append,
    remove_unfinished,
)
from workbench.store_json import (
    RecordError,
    WriterLock,
    append_line,
    explained,
    overwrite_json,
    read_json,
    replace_json,
    safe_name,
)

FORMAT = 1
_NUMBER = ".number.json"
_MOST_IN_ONE_SECOND = 10_000


class RunRecord:
    """The record of a run, open for writing by this process alone."""

    def __init__(
        self, directory: Path, lock: WriterLock, description: Mapping[str, Any]
    ) -> None:
        self.directory = directory
        self.run_id = directory.name
        self._lock = lock
        self._description = dict(description)
        self._writing = threading.Lock()

    @classmethod
    def create(
        cls, spec_tables: Mapping[str, Any], preset: str, group: str = ""
    ) -> RunRecord:
        """Begin a new record; it appears as a whole or not at all."""
        if group and not safe_name(group):
            raise RecordError(f"group {group!r}: use letters, digits, '.', '_' and '-'")
        root = runs_directory()
        with explained(root):
            make_root(root)
        remove_leftovers(root)
        created = datetime.now(UTC)
        description = {
            "format": FORMAT,
            "number": _next_number(root),
            "preset": preset,
            "group": group,
            "status": RunStatus.RUNNING.value,
            "message": "",
            "created": created.isoformat(timespec="seconds"),
            "ended": None,
            "pid": os.getpid(),
            "spec": dict(spec_tables),
            "summary": {},
        }
        stem = created.strftime("%Y%m%d-%H%M%S")
        for count in range(1, _MOST_IN_ONE_SECOND):
            run_id = stem if count == 1 else f"{stem}-{count:02}"
            named = {"run_id": run_id, **description}
            lock = claim_directory(root / run_id, partial(_begin, named))
            if lock is not None:
                return cls(root / run_id, lock, named)
        raise RecordError(f"cannot find a free name for a run in {root}")

    @classmethod
    def reopen(cls, directory: Path, description: Mapping[str, Any]) -> RunRecord:
        """Open the record of a run that is over, to continue it."""
        # Looked for below too: TensorFlow follows links among its checkpoints.
        if wrong := first_damage(directory):
            raise RecordError(f"{directory} is damaged: {wrong}")
        lock = WriterLock(directory / "lock")
        record = cls(directory, lock, description)
        try:
            with explained(directory):
                remove_unfinished(directory)
            record.mark(RunStatus.RUNNING)
        except RecordError:
            lock.release()
            raise
        return record

    @property
    def checkpoints(self) -> Path:
        """Directory of the run's checkpoints."""
        return self.directory / "checkpoints"

    @property
    def log(self) -> Path:
        """File for what TensorFlow and others say."""
        return self.directory / "run.log"

    def append(self, event: Event) -> None:
        """Add an event; it is in the file when this returns."""
        lasting = isinstance(event, EpochEnded | Evaluated | RunEnded)
        self._append({**event_to_json(event), "time": time.time()}, sync=lasting)

    def resumed(self, first_epoch: int, step: int = 0) -> None:
        """Note where the run goes on, so that what it repeats counts once."""
        place = {"first_epoch": first_epoch, "step": step}
        self._append({"event": "resumed", **place, "time": time.time()}, sync=True)

    def _append(self, row: Mapping[str, Any], *, sync: bool) -> None:
        with self._writing:
            append_line(self.directory / "metrics.jsonl", to_line(row), sync=sync)

    def append_all(self, events: Sequence[tuple[Event, float]]) -> None:
        """Add events with their times at once, safe from a killed process.

        They are not forced onto the disk one by one: a script should not wait for it.
        """
        if events:
            lines = "".join(event_line(event, at) for event, at in events)
            with self._writing:
                append_line(self.directory / "metrics.jsonl", lines)

    def write_plan(self, plan: Mapping[str, Any], file: str = "plan.json") -> None:
        """Keep the plan that was made for the run, or for a program of a script."""
        path = self.directory / file
        with explained(path):
            make_directory(path.parent, exist_ok=True)
        replace_json(path, plan)

    def describe(self, tables: Mapping[str, Any]) -> None:
        """Write what is known of the experiment now; a script tells while it runs."""
        with self._writing:
            self._description["spec"] = dict(tables)
            replace_json(self.directory / "run.json", self._description)

    def mark(
        self,
        status: RunStatus,
        message: str = "",
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Write how the run stands."""
        with self._writing:
            self._description |= {
                "status": status.value,
                "message": message,
                "pid": os.getpid(),
                "ended": None if status.live else _now(),
            }
            if summary is not None:
                self._description["summary"] = dict(summary)
            replace_json(self.directory / "run.json", self._description)

    def finish(
        self,
        status: RunStatus,
        message: str = "",
        summary: Mapping[str, Any] | None = None,
    ) -> None:
        """Write how the run ended, and let go of the record even if that fails."""
        try:
            self.mark(status, message, summary)
        except RecordError:
            if not overwrite_json(self.directory / "run.json", self._description):
                raise
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the record without saying how the run ended."""
        self._lock.release()


def _begin(description: Mapping[str, Any], directory: Path) -> None:
    make_directory(directory / "checkpoints")
    open_to_append(directory / "run.log").close()
    replace_json(directory / "run.json", description)


def last_number(root: Path) -> int:
    """Return how many runs this store has begun; no run of its own has a higher one."""
    last = (read_json(root / _NUMBER) or {}).get("last")
    return last if type(last) is int else 0


def _next_number(root: Path) -> int:
    """Return the number of a new run, which orders runs whatever the clock says."""
    with explained(root), locked_directory(root, fcntl.LOCK_EX):
        records = sum(map(safe_name, names_in(root)))
        number = max(last_number(root), records) + 1
        replace_json(root / _NUMBER, {"last": number})
    return number


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
