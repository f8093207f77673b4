"""Every run that can be looked at: those of this app, and what records tell of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from workbench.comparing.run_filter import matches
from workbench.locations import runs_directory
from workbench.runs.events import Event, RunStatus
from workbench.runs.record_files import RecordError
from workbench.runs.record_follower import RecordFollower
from workbench.runs.run_monitor import RunMonitor
from workbench.runs.run_notes import RunNotes, notes_text
from workbench.runs.run_store import StoredRun
from workbench.store_files import size_of
from workbench.ui.controllers.run_board import LiveRun, RunBoard

_SAME = ("file", "arguments")
"""What runs of the same script have in common."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run as a list shows it."""

    key: str
    preset: str
    status: RunStatus
    result: str
    run_id: str = ""
    """Empty before it has a record."""
    begun: datetime | None = None
    notes: RunNotes = RunNotes()  # noqa: RUF009

    @property
    def name(self) -> str:
        """What lists call it."""
        return self.notes.name or self.preset

    @property
    def text(self) -> str:
        """Everything that words of a filter may be part of."""
        parts = (self.preset, self.status.value, self.key, self.run_id)
        return " ".join([*parts, notes_text(self.notes)])

    @classmethod
    def of_live(cls, run: LiveRun, notes: RunNotes) -> RunEntry:
        """Return the entry of a run of this app."""
        monitor = run.monitor
        if monitor.status is RunStatus.RUNNING:
            result = f"{monitor.fraction * 100:.0f} %"
        else:
            result = _result(
                monitor.status, monitor.epochs[-1].accuracy if monitor.epochs else None
            )
        begun = datetime.fromtimestamp(monitor.log[0].at) if monitor.log else None
        return cls(
            run.key,
            monitor.preset,
            monitor.status,
            result,
            monitor.run_id,
            begun,
            notes,
        )

    @classmethod
    def of_record(cls, run: StoredRun, notes: RunNotes) -> RunEntry:
        """Return the entry of a recorded run."""
        accuracy = run.summary.get("accuracy")
        number = accuracy if isinstance(accuracy, int | float) else None
        result = _result(run.status, number)
        begun = _local_time(run.created)
        return cls(run.run_id, run.preset, run.status, result, run.run_id, begun, notes)


def _local_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone().replace(tzinfo=None)
    except ValueError:
        return None


def _result(status: RunStatus, accuracy: float | None) -> str:
    if status is RunStatus.FINISHED and accuracy is not None:
        return f"{accuracy:.3f}"
    return status.value


def _events(run: StoredRun) -> tuple[list[tuple[float, Event]], str]:
    """Return what happened in a run, or why that cannot be read."""
    try:
        return run.timed_events(), ""
    except RecordError as error:
        return [], str(error)


NEWEST = "newest first"
ORDERS: Mapping[str, Callable[[RunEntry], Any]] = {
    NEWEST: lambda entry: 0,
    "by name": lambda entry: entry.name,
    "by result": lambda entry: (not entry.result[:1].isdigit(), _reversed(entry)),
    "by state": lambda entry: entry.status.value,
}
"""Orders of the lists; runs that are equal in one stay newest first."""


def _reversed(entry: RunEntry) -> float:
    try:
        return -float(entry.result.rstrip(" %"))
    except ValueError:
        return 0.0


class KnownRuns:
    """Finds runs by the keys under which lists know them."""

    def __init__(self, board: RunBoard) -> None:
        self._board = board
        self._records: list[StoredRun] = []
        self._stored: list[RunEntry] = []
        self.marked: list[str] = []
        """Keys of the runs to compare."""
        self.chosen = ""
        """Key of the run that was last opened or started."""
        self.order = NEWEST
        self.notes: Mapping[str, RunNotes] = {}
        """What the user says about runs, by id."""
        self._tables: dict[str, dict[str, Any]] = {}
        self._paired: list[str] = []
        """Runs that were marked because one follows the other."""
        self._recorded: dict[str, tuple[int, RunMonitor]] = {}
        self._followed: dict[str, tuple[RecordFollower, RunMonitor]] = {}

    @property
    def records(self) -> list[StoredRun]:
        """What records tell of, newest first."""
        return self._records

    @records.setter
    def records(self, records: list[StoredRun]) -> None:
        # Lists ask many times a second for what changes now and then.
        self._records = records
        self._stored = [
            RunEntry.of_record(run, self._notes(run.run_id)) for run in records
        ]

    def _notes(self, run_id: str) -> RunNotes:
        return self.notes.get(run_id, RunNotes())

    def annotate(self, run_id: str, notes: RunNotes) -> None:
        """Let lists tell at once what is said about a run."""
        self.notes = {**self.notes, run_id: notes}
        self.records = self._records

    def newest_first(self) -> list[RunEntry]:
        """Return all runs, whatever the lists' order is."""
        live = [
            RunEntry.of_live(run, self._notes(run.monitor.run_id))
            for run in reversed(self._board.runs)
        ]
        own = {run.monitor.run_id for run in self._board.runs}
        return live + [entry for entry in self._stored if entry.key not in own]

    def entries(self) -> list[RunEntry]:
        """Return all runs in the chosen order, pinned ones first."""
        all_runs = self.newest_first()
        if self.order != NEWEST:
            all_runs.sort(key=ORDERS[self.order])
        pinned = [entry for entry in all_runs if entry.notes.pinned]
        if not pinned:
            return all_runs
        return pinned + [entry for entry in all_runs if not entry.notes.pinned]

    def next_order(self) -> None:
        """Take the next order of the lists."""
        names = list(ORDERS)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def lets_through(self, entry: RunEntry, words: str) -> bool:
        """Tell whether a run has all words of a filter."""
        return matches(words, entry.text, lambda: self.cached_tables(entry.key))

    def cached_tables(self, key: str) -> dict[str, Any]:
        """Return the same as `tables`, for who asks with every key or letter."""
        if key not in self._tables and (tables := self.tables(key)):
            self._tables[key] = tables
        return self._tables.get(key, {})

    def forget(self, *keys: str) -> None:
        """Take a run that is deleted, by all its keys, out of everything."""
        self.records = [run for run in self.records if run.run_id not in keys]
        self.marked = [item for item in self.marked if item not in keys]
        self.chosen = "" if self.chosen in keys else self.chosen

    def record(self, key: str) -> StoredRun | None:
        """Return the record of a run, live ones included."""
        live = self._board.find(key)
        run_id = live.monitor.run_id if live else key
        return next((run for run in self.records if run.run_id == run_id), None)

    def monitor(self, key: str) -> RunMonitor | None:
        """Return what is known of a run; a record is read again when it has grown."""
        live = self._board.find(key)
        if live is not None:
            return live.monitor
        stored = self.record(key)
        if stored is None:
            return None
        if stored.live:
            follower, monitor = self._follow(stored)
            if not follower.rewritten:
                return monitor
        size = size_of(stored.directory / "metrics.jsonl")
        known = self._recorded.get(key)
        if known is None or known[0] != size or known[1].live is not stored.live:
            events, unread = _events(stored)
            monitor = RunMonitor.of(stored.preset, stored.tables, events)
            monitor.run_id = stored.run_id
            if not (stored.live and monitor.status is RunStatus.PAUSED):
                monitor.status = stored.status
            monitor.message = unread or monitor.message or stored.message
            self._recorded[key] = (size, monitor)
        return self._recorded[key][1]

    def _follow(self, stored: StoredRun) -> tuple[RecordFollower, RunMonitor]:
        """Take in what a run of another process has written since the last look."""
        if stored.run_id not in self._followed:
            monitor = RunMonitor.of(stored.preset, stored.tables, ())
            follower = RecordFollower(stored.directory)
            self._followed[stored.run_id] = follower, monitor
        follower, monitor = self._followed[stored.run_id]
        if follower.behind:
            for event, at in follower.new_events():
                monitor.add(event, at)
        return follower, monitor

    def log(self, key: str) -> Path | None:
        """Return the file of what a run prints; None before it has a record."""
        live = self._board.find(key)
        run_id = live.monitor.run_id if live else key
        return runs_directory() / run_id / "run.log" if run_id else None

    def pair_with_the_one_before(self, run: LiveRun) -> None:
        """Mark a script's run and the one before it; the user's own marks stay."""
        before = self._one_before(run)
        if before and self.marked == self._paired:
            self._paired = [before, run.key]
            self.marked[:] = self._paired

    def _one_before(self, run: LiveRun) -> str:
        script = run.tables.get("script", {})
        newest_first = self.newest_first()
        keys = [one.key for one in newest_first if one.preset == run.monitor.preset]
        for key in keys[keys.index(run.key) + 1 :]:
            known = self.tables(key).get("script")
            if known and all(known.get(name) == script.get(name) for name in _SAME):
                return key
        return ""

    @property
    def follows(self) -> bool:
        """Whether the run that is looked at is a live one of another process."""
        key = self.viewed
        stored = None if self._board.find(key) else self.record(key)
        return stored is not None and stored.live

    def tables(self, key: str) -> dict[str, Any]:
        """Return the experiment of a run as tables."""
        live = self._board.find(key)
        if live is not None and "script" not in live.tables:
            return live.tables
        stored = self.record(key)
        if stored is None:
            return live.tables if live else {}
        return dict(stored.tables)

    @property
    def viewed(self) -> str:
        """Key of the run that is looked at: the chosen one, or the newest."""
        newest = [run.key for run in reversed(self._board.runs)]
        newest += [run.run_id for run in self._records[:1]]
        return self.chosen or next(iter(newest), "")

    @property
    def viewed_monitor(self) -> RunMonitor | None:
        """What is known of the run that is looked at."""
        return self.monitor(self.viewed)
