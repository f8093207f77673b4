"""Reading records: which runs there are, and what happened in each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.core.event_json import event_from_json
from workbench.core.events import (
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.core.locations import runs_directory
from workbench.core.record_files import (
    RecordError,
    UnknownRecord,
    has_writer,
    read_lines,
    safe_name,
)
from workbench.core.run_record import RunRecord
from workbench.core.series import RunSeries, series_of

LATEST = "latest"
_LIVE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as its record tells it."""

    run_id: str
    directory: Path
    preset: str
    group: str
    status: RunStatus
    message: str
    created: str
    """ISO 8601, UTC."""
    ended: str | None
    pid: int
    tables: Mapping[str, Any]
    """The experiment as nested tables."""
    summary: Mapping[str, Any]
    description: Mapping[str, Any]
    """All of `run.json`."""

    @property
    def live(self) -> bool:
        """Whether a process is working on it."""
        return self.status in _LIVE

    @property
    def plan(self) -> Mapping[str, Any]:
        """The plan that was made for the run; empty if there is none."""
        return _read_json(self.directory / "plan.json") or {}

    def events(self) -> list[Event]:
        """Return what happened, without what a resumed run did a second time."""
        events: list[Event] = []
        for row in read_lines(self.directory / "metrics.jsonl"):
            if row.get("event") == "resumed":
                first_epoch = _whole(row.get("first_epoch")) or 1
                events = [item for item in events if _stays(item, first_epoch)]
                continue
            event = event_from_json(row)
            if event is not None:
                events.append(event)
        return events

    def series(self) -> RunSeries:
        """Return the run's curves."""
        return series_of(self.events())

    def reopen(self) -> RunRecord:
        """Open the record for the process that continues the run."""
        return RunRecord.reopen(self.directory, self.description)


def _stays(event: Event, first_epoch: int) -> bool:
    if isinstance(event, Progressed | EpochEnded):
        return event.epoch < first_epoch
    return not isinstance(event, Evaluated | RunEnded | RunStarted)


def list_runs(group: str | None = None) -> list[StoredRun]:
    """Return the runs, newest first, optionally only those of a group."""
    root = runs_directory()
    try:
        names = sorted((entry.name for entry in root.iterdir()), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RecordError(f"cannot read {root}: {error.strerror}") from error
    runs = (_read(root / name) for name in names if safe_name(name))
    return [run for run in runs if run and (group is None or run.group == group)]


def open_run(name: str) -> StoredRun:
    """Return a run by its id, by the unique beginning of one, or the `latest` one."""
    if name == LATEST:
        runs = list_runs()
        if not runs:
            raise UnknownRecord(f"there are no runs in {runs_directory()} yet")
        return runs[0]
    if not safe_name(name):
        raise UnknownRecord(f"{name!r} is not the id of a run")
    run = _read(runs_directory() / name)
    if run is not None:
        return run
    matches = [run for run in list_runs() if run.run_id.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        some = ", ".join(run.run_id for run in matches[:4])
        raise UnknownRecord(f"{name!r} could be {len(matches)} runs: {some}")
    raise UnknownRecord(f"there is no run {name!r} in {runs_directory()}")


def _read(directory: Path) -> StoredRun | None:
    description = _read_json(directory / "run.json")
    if description is None:
        return None
    status = _status(description, RunStatus.FAILED)
    if status in _LIVE and not has_writer(directory / "lock"):
        # It may have ended between the two looks.
        description = _read_json(directory / "run.json") or description
        status = _status(description, RunStatus.KILLED)
        status = RunStatus.KILLED if status in _LIVE else status
    return StoredRun(
        run_id=directory.name,
        directory=directory,
        preset=_text(description, "preset"),
        group=_text(description, "group"),
        status=status,
        message=_text(description, "message"),
        created=_text(description, "created"),
        ended=_text(description, "ended") or None,
        pid=_whole(description.get("pid")),
        tables=_sections(description.get("spec")),
        summary=_table(description.get("summary")),
        description=description,
    )


def _status(description: Mapping[str, Any], otherwise: RunStatus) -> RunStatus:
    try:
        return RunStatus(description.get("status"))
    except ValueError:
        return otherwise


def _text(description: Mapping[str, Any], name: str) -> str:
    value = description.get(name)
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int:
    return value if type(value) is int else 0


def _sections(value: Any) -> Mapping[str, Any]:
    """Return an experiment's tables, without what cannot be one."""
    tables = _table(value).items()
    return {name: table for name, table in tables if isinstance(table, dict)}


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
