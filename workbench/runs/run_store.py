"""Reading records: which runs there are, and what happened in each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.locations import runs_directory
from workbench.runs.event_json import event_from_json
from workbench.runs.events import (
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_index import describe, listed_descriptions
from workbench.runs.run_record import RunRecord, last_number
from workbench.runs.series import RunSeries, series_of
from workbench.store_files import exists
from workbench.store_index import Stamp
from workbench.store_json import (
    MOST_BYTES,
    RecordError,
    UnknownRecord,
    has_writer,
    load_json,
    read_json,
    read_lines,
    readable,
    safe_name,
)

LATEST = "latest"
MOST_PLAN_BYTES = 64 * 2**20
"""A plan says much of every layer, and a model may have 20,000."""


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
    summary: Mapping[str, Any]
    number: int = 0
    """Orders the runs of a store; 0 for one that came from elsewhere."""
    epochs_wanted: int = 0
    """Of an experiment; 0 for a script."""
    stamp: Stamp = field(default_factory=list, compare=False)
    """What changes when its files do; empty where it was not listed."""

    def _repr_html_(self) -> str:
        """Return the run for a cell of a notebook, which calls this."""
        # Documents lie above what they are of, and only notebooks ask for them here.
        from ipu_runtime.reports.document_html import notebook_html
        from workbench.views.run import report_document

        return notebook_html(report_document(self))

    @property
    def description(self) -> Mapping[str, Any]:
        """All of `run.json`, which a list does without."""
        return self._read("run.json")

    @property
    def tables(self) -> Mapping[str, Any]:
        """The experiment as nested tables."""
        return _sections(self.description.get("spec"))

    @property
    def live(self) -> bool:
        """Whether a process is working on it."""
        return self.status.live

    @property
    def script(self) -> Mapping[str, Any]:
        """File, arguments and commit of a script; empty for an experiment."""
        return _table(self.tables.get("script"))

    @property
    def plan(self) -> Mapping[str, Any]:
        """The plan that was made for the run; empty if there is none."""
        return self._read("plan.json", MOST_PLAN_BYTES)

    def _read(self, file: str, most_bytes: int = MOST_BYTES) -> Mapping[str, Any]:
        return (
            {} if self.damaged else read_json(self.directory / file, most_bytes) or {}
        )

    def _rows(self) -> Iterable[Mapping[str, Any]]:
        return () if self.damaged else read_lines(self.directory / "metrics.jsonl")

    @property
    def damaged(self) -> bool:
        """Whether nothing of its record is to be read."""
        return self.status is RunStatus.DAMAGED

    def events(self) -> list[Event]:
        """Return what happened, without what a resumed run did a second time."""
        return [event for _, event in self.timed_events()]

    def timed_events(self) -> list[tuple[float, Event]]:
        """Return what happened with its time, in seconds since 1970; 0 if unknown."""
        return lasting_events(self._rows())

    def seconds(self) -> float:
        """Return how long processes have worked on it, as far as events tell."""
        total, last = 0.0, None
        for row in self._rows():
            at = row.get("time")
            if not isinstance(at, float):
                continue
            if last is not None and row.get("event") != "resumed":
                total += max(at - last, 0.0)
            last = at
        return total

    def series(self) -> RunSeries:
        """Return the run's curves."""
        return series_of(self.events())

    def reopen(self) -> RunRecord:
        """Open the record for the process that continues the run."""
        return RunRecord.reopen(self.directory, load_json(self.directory / "run.json"))

    def tables_to_go_on_with(self) -> Mapping[str, Any]:
        """Return the experiment; raise if it cannot be read, and may be another."""
        return _sections(load_json(self.directory / "run.json").get("spec"))


def lasting_events(rows: Iterable[Mapping[str, Any]]) -> list[tuple[float, Event]]:
    """Return the events of a record's rows, without what a resumed run did again."""
    events: list[tuple[float, Event]] = []
    for row in rows:
        if row.get("event") == "resumed":
            place = _whole(row.get("first_epoch")) or 1, _whole(row.get("step"))
            events = [item for item in events if _stays(item[1], *place)]
            continue
        event = event_from_json(row)
        if event is not None:
            at = row.get("time")
            if not isinstance(at, float) or not math.isfinite(at):
                at = 0.0
            events.append((at, event))
    return events


def _stays(event: Event, first_epoch: int, step: int) -> bool:
    if isinstance(event, Progressed) and event.epoch == first_epoch:
        return event.step <= step
    if isinstance(event, Progressed | EpochEnded):
        return event.epoch < first_epoch
    return not isinstance(event, Evaluated | RunEnded | RunStarted)


def list_runs(group: str | None = None) -> list[StoredRun]:
    """Return the runs, newest first, optionally only those of a group."""
    root = runs_directory()
    try:
        listed = listed_descriptions(root)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RecordError(f"cannot read {root}: {error.strerror}") from error
    last = last_number(root)
    runs = [
        _stored(root / name, description, stamp) for name, stamp, description in listed
    ]
    # By what is known: a clock that was wrong has given times, and names made of them.
    runs.sort(key=lambda run: _order(run, last), reverse=True)
    return [run for run in runs if group is None or run.group == group]


def _order(run: StoredRun, last: int) -> tuple[int, str, str]:
    return run.number if run.number <= last else 0, run.created, run.run_id


def open_run(name: str, *, damaged_too: bool = False) -> StoredRun:
    """Return a run by its id, by the unique beginning of one, or the `latest` one.

    A damaged one raises with what is wrong, unless the caller can do with it.
    """
    if name == LATEST:
        runs = [run for run in list_runs() if not run.damaged]
        if not runs:
            raise UnknownRecord(f"there are no runs in {runs_directory()} yet")
        return runs[0]
    if not safe_name(name):
        raise UnknownRecord(f"{name!r} is not the id of a run")
    with readable(runs_directory() / name):
        there = exists(runs_directory() / name)
    if there:
        return _opened(runs_directory() / name, damaged_too)
    matches = [run for run in list_runs() if run.run_id.startswith(name)]
    if len(matches) == 1:
        return _opened(matches[0].directory, damaged_too)
    if matches:
        some = ", ".join(run.run_id for run in matches[:4])
        raise UnknownRecord(f"{name!r} could be {len(matches)} runs: {some}")
    raise UnknownRecord(f"there is no run {name!r} in {runs_directory()}")


def _opened(directory: Path, damaged_too: bool) -> StoredRun:
    run = _stored(directory, describe(directory, deep=True))
    if run.damaged and not damaged_too:
        raise RecordError(run.message)
    return run


def _stored(
    directory: Path, description: Mapping[str, Any], stamp: Stamp | None = None
) -> StoredRun:
    status = _status(description, RunStatus.FAILED)
    if status.live and not has_writer(directory / "lock"):
        # It may have ended between the two looks.
        description = describe(directory, deep=False)
        status = _status(description, RunStatus.KILLED)
        status = RunStatus.KILLED if status.live else status
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
        summary=_table(description.get("summary")),
        number=_whole(description.get("number")),
        epochs_wanted=_whole(description.get("epochs_wanted")),
        stamp=stamp or [],
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
