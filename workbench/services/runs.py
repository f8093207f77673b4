"""Runs of this process, and all that records tell of: start, queue, follow, stop.

[Note: threads]
One thread calls `Runs`, in the app that of the event loop. A run is worked on by a
thread (or a process, see `ScriptProcess`) that appends events to its record and touches
nothing of `Runs`: it says which record it has opened, and in the end how it ended, in
case the record could not take that. Whoever shows runs calls `follow` a few times a
second, which reads what records have got since; nothing else is polled. Stopping and
pausing go the other way through a `RunControl`, which is safe from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.comparing.run_filter import matches
from workbench.editing.draft import check_tables
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.field_differences import differences
from workbench.experiment.preset_store import PresetError, load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.locations import NoHomeError, runs_directory
from workbench.runs.events import RunStatus
from workbench.runs.record_follower import RecordFollower
from workbench.runs.run_notes import RunNotes, read_notes
from workbench.runs.run_store import StoredRun, list_runs, open_run
from workbench.runs.run_view import RunView
from workbench.runs.waiting_runs import WaitingRun, WaitingRuns
from workbench.services import recorded_runs
from workbench.services.refused import Refused
from workbench.services.run_entries import (
    NEWEST,
    ORDERS,
    RunEntry,
    entry_of_record,
    entry_of_view,
    ordered,
)
from workbench.services.signal import Signal
from workbench.services.started_run import Job, Runner, Spawn, StartedRun, in_thread
from workbench.store_json import RecordError

if TYPE_CHECKING:
    from pathlib import Path

    # The app draws its first frame before it loads NumPy.
    from ipu_runtime.plan.plan import Plan

_LONG_S, _SHARE = 0.2, 10
_MOST_CHANGES = 3
_NO_RUN = "no run is live", "F5 starts one"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to start from the record of another one."""

    preset: str
    experiment: Callable[[], ExperimentSpec]
    """Reads it, on any thread: it may take long, and refuse."""
    resume: str | None = None
    """Id of the run that it goes on with."""


class Runs:
    """Works on one run at a time, lets others wait, and keeps up with all records.

    `run_grew` tells the key of a run that there is more to show of, `queue_changed`
    that lists differ: runs, their state, notes or marks. `run_ended` tells of a run of
    this process that is over, `renamed` of a key that is another one now, or none:
    a run has got a record, or was deleted. `failed` tells what cannot be kept or read.
    """

    def __init__(self, runner: Runner, spawn: Spawn = in_thread) -> None:
        """Begin without runs; `look` and `take_over` find those that there are.

        Args:
            runner: What executes an experiment.
            spawn: How threads are started.
        """
        self._runner, self._spawn = runner, spawn
        self.run_grew: Signal[str] = Signal()
        self.queue_changed: Signal[Runs] = Signal()
        self.run_ended: Signal[StartedRun] = Signal()
        self.failed: Signal[str] = Signal()
        self.renamed: Signal[tuple[str, str]] = Signal()
        self.started: list[StartedRun] = []
        """Those of this process, in the order in which they were asked for."""
        self._count = 0
        self._stored_queue = WaitingRuns()
        self.records: list[StoredRun] = []
        """What records tell of, newest first."""
        self.notes: Mapping[str, RunNotes] = {}
        """What the user says about runs, by id."""
        self._entries: list[RunEntry] = []
        self._found: tuple[list[StoredRun], Mapping[str, RunNotes]] | None = None
        self._unread = ""
        self._looking = False
        self._rest_until = 0.0
        self._followers: dict[str, tuple[RunStatus, RecordFollower]] = {}
        self._tables: dict[str, dict[str, Any]] = {}
        self.chosen = ""
        """Key of the run that was last opened or started."""
        self.order = NEWEST

    # Start, queue and end

    def start(
        self,
        spec: ExperimentSpec,
        preset: str,
        resume: str | None = None,
        plan: Plan | None = None,
    ) -> StartedRun:
        """Start an experiment, or put it into the queue.

        Args:
            spec: The experiment.
            preset: What it is called.
            resume: Id of the run that it goes on with.
            plan: Its plan, if it is known.
        """
        job = partial(self._runner, spec, plan=plan)
        return self.start_job(job, spec_to_tables(spec), preset, resume)

    def start_job(
        self, job: Job, tables: dict[str, Any], preset: str, resume: str | None = None
    ) -> StartedRun:
        """Start some work, or put it into the queue; one that is resumed stays one."""
        run = self._add(job, tables, preset, resume)
        self._start_next()
        self.chosen = run.key
        self.queue_changed.emit(self)
        return run

    def _add(
        self, job: Job, tables: dict[str, Any], preset: str, resume: str | None
    ) -> StartedRun:
        before = self.find(resume) if resume else None
        if before is not None:
            self.started.remove(before)
        self._count += 1
        run = StartedRun(self._count, job, tables, preset, resume)
        self.started.append(run)
        return run

    @property
    def active(self) -> StartedRun | None:
        """The run that is being worked on."""
        busy = (run for run in self.started if not (run.waits or run.over))
        return next(busy, None)

    @property
    def waiting(self) -> list[StartedRun]:
        """Runs whose turn has not come."""
        return [run for run in self.started if run.waits]

    def _start_next(self) -> None:
        due = [run for run in self.waiting if not run.held]
        if due and self.active is None:
            due[0].begin()
            self._spawn(due[0].work, "run")
        self._store_queue()

    def _store_queue(self) -> None:
        """Write which runs wait, if they are others than before; scripts are not."""
        waiting = [
            WaitingRun(run.preset, run.tables, run.resume)
            for run in self.waiting
            if "script" not in run.tables
        ]
        try:
            self._stored_queue.keep(waiting)
        except (RecordError, NoHomeError) as error:
            self.failed.emit(f"the queue cannot be kept: {error}")

    def take_over(self) -> int:
        """Show the runs that wait since the last visit; they start when asked for."""
        left = self._stored_queue.adopt()
        for item in left:
            spec, problems = check_tables(item.tables)
            if spec is None:
                self.failed.emit(f"cannot queue what waited: {problems[0]}")
                continue
            job = partial(self._runner, spec)
            run = self._add(job, dict(item.tables), item.preset, item.resume)
            run.held = True
            run.view.activity = "kept from last time: r starts it"
        if self.waiting:
            self.queue_changed.emit(self)
        return len(left) if self.waiting else 0

    def release_queue(self) -> None:
        """Leave what waits to the next process."""
        self._stored_queue.release()

    def hold_waiting(self) -> None:
        """Let every run that has not begun wait until it is asked for."""
        for run in self.waiting:
            run.held = True

    def cancel_waiting(self) -> None:
        """Take every run whose turn would come out of the queue."""
        for run in self.waiting:
            if not run.held:
                run.take_out()

    def _live(self) -> StartedRun:
        if self.active is None:
            raise Refused(*_NO_RUN)
        return self.active

    @property
    def pausable(self) -> bool:
        """Whether the live run can wait: a script cannot."""
        return self.active is not None and "script" not in self.active.tables

    def pause(self) -> bool:
        """Let the live run wait, or go on; tell whether it waits."""
        control = self._live().control
        if not self.pausable:
            raise Refused("a script cannot be paused", "s stops it")
        (control.resume if control.paused else control.pause)()
        return control.paused

    def stop(self) -> str:
        """Stop the live run; what is done is kept. Return where it will stop."""
        run = self._live()
        run.stop()
        run.view.activity = "stopping"
        if "script" in run.tables:
            return "its next line; one that goes on is terminated after 10 s"
        return "the next piece of work"

    # Follow

    def follow(self) -> None:
        """Take in what records have got since; called a few times a second."""
        before = self.active
        for run in self.started:
            key = run.key
            if run.over or run.waits or not run.follow():
                continue
            if run.key != key:
                self._rename(key, run.key)
            self.run_grew.emit(run.key)
        self._follow_chosen()
        self._take_found()
        if before is not None and before.over:
            self._read_again(before.key)
            self.look()
            self.run_ended.emit(before)
        self._start_next()
        if before is not self.active:
            self.queue_changed.emit(self)

    def _rename(self, old: str, new: str) -> None:
        """Know a run by its record from now on, or no more."""
        self.chosen = new if self.chosen == old else self.chosen
        self.renamed.emit((old, new))

    def _follow_chosen(self) -> None:
        """Keep up with the run that is looked at, if another process works on it."""
        key = self.viewed
        stored = None if self.find(key) else self.record(key)
        if stored is not None and stored.live and self._follower(stored).follow():
            self.run_grew.emit(key)

    def look(self) -> None:
        """Read in a thread which runs there are; `follow` takes in what it finds."""
        if not self._looking and time.monotonic() >= self._rest_until:
            self._looking = True
            self._spawn(self._read_records, "records")

    def _read_records(self) -> None:
        began = time.monotonic()
        try:
            found = list_runs()
            notes = {run.run_id: read_notes(run.directory) for run in found}
            self._found = found, notes
        except RecordError as error:
            self._unread = str(error)
        finally:
            # A store so large that looking takes long is looked at less often.
            took = time.monotonic() - began
            self._rest_until = began + (_SHARE * took if took > _LONG_S else 0.0)
            self._looking = False

    def _read_again(self, key: str) -> None:
        """Know how a run has ended before all records are read again."""
        with suppress(RecordError):
            run = open_run(key, damaged_too=True)
            known = [item.run_id for item in self.records]
            at = known.index(key) if key in known else 0
            rest = [item for item in self.records if item.run_id != key]
            self._know([*rest[:at], run, *rest[at:]], self.notes)

    def _take_found(self) -> None:
        unread, self._unread = self._unread, ""
        if unread:
            self.failed.emit(unread)
        found, self._found = self._found, None
        if found is not None and found != (self.records, self.notes):
            self._know(*found)

    def _know(self, records: list[StoredRun], notes: Mapping[str, RunNotes]) -> None:
        before = self.viewed_view
        self.records, self.notes = records, notes
        self._entries = [
            entry_of_record(run, notes.get(run.run_id, RunNotes())) for run in records
        ]
        if self.viewed_view is not before:
            self.run_grew.emit(self.viewed)
        self.queue_changed.emit(self)

    # What is known of a run

    def find(self, key: str) -> StartedRun | None:
        """Return a run of this process by its key or the id of its record."""
        return next((run for run in self.started if key and run.key == key), None)

    def record(self, key: str) -> StoredRun | None:
        """Return the record of a run, live ones included; None before it has one."""
        return next((run for run in self.records if run.run_id == key), None)

    def view(self, key: str) -> RunView | None:
        """Return how a run stands; a record is read again where it has grown."""
        started, stored = self.find(key), self.record(key)
        if started is not None:
            return started.view
        if stored is None:
            return None
        follower = self._follower(stored)
        follower.catch_up()
        return follower.view

    def _follower(self, stored: StoredRun) -> RecordFollower:
        known = self._followers.get(stored.run_id)
        if known is None or known[0] is not stored.status:
            follower = RecordFollower(stored)
            follower.catch_up()
            if not stored.live:
                follower.view.status = stored.status
                follower.view.message = follower.view.message or stored.message
            known = self._followers[stored.run_id] = stored.status, follower
        return known[1]

    @property
    def viewed(self) -> str:
        """Key of the run that is looked at: the chosen one, or the newest."""
        newest = [run.key for run in reversed(self.started)]
        newest += [run.run_id for run in self.records[:1]]
        return self.chosen or next(iter(newest), "")

    @property
    def viewed_view(self) -> RunView | None:
        """How the run stands that is looked at."""
        return self.view(self.viewed)

    def tables(self, key: str) -> dict[str, Any]:
        """Return the experiment of a run as tables."""
        started, stored = self.find(key), self.record(key)
        if started is not None and ("script" not in started.tables or stored is None):
            return started.tables
        return dict(stored.tables) if stored else {}

    def cached_tables(self, key: str) -> dict[str, Any]:
        """Return the same as `tables`, for who asks with every key or letter."""
        if key not in self._tables and (tables := self.tables(key)):
            self._tables[key] = tables
        return self._tables.get(key, {})

    def log(self, key: str) -> Path | None:
        """Return the file of what a run prints; None before it has a record."""
        view = self.view(key)
        return runs_directory() / view.run_id / "run.log" if view else None

    def newest_first(self) -> list[RunEntry]:
        """Return all runs, whatever the lists' order is."""
        own = [
            entry_of_view(run.key, run.view, self.notes.get(run.key, RunNotes()))
            for run in reversed(self.started)
        ]
        keys = {entry.key for entry in own}
        return own + [entry for entry in self._entries if entry.key not in keys]

    def entries(self) -> list[RunEntry]:
        """Return all runs in the chosen order, pinned ones first."""
        return ordered(self.newest_first(), self.order)

    def next_order(self) -> None:
        """Take the next order of the lists."""
        names = list(ORDERS)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def lets_through(self, entry: RunEntry, words: str) -> bool:
        """Tell whether a run has all words of a filter."""
        return matches(words, entry.text, lambda: self.cached_tables(entry.key))

    def title(self, key: str) -> str:
        """Return the preset of a run and what is changed in it."""
        run = self.find(key) or self.record(key)
        return run_title(run.preset, self.tables(key)) if run else ""

    # Do something with a run

    def begin(self, request: RunRequest) -> StartedRun:
        """Start what `to_repeat`, `to_resume` or `to_evaluate` has returned."""
        return self.start(request.experiment(), request.preset, request.resume)

    def to_repeat(self, key: str, changes: Sequence[str] = ()) -> RunRequest:
        """Start the experiment of a run once more, with changes as `a.b=c`."""
        view, tables = self.view(key), self.tables(key)
        if view is None:
            raise Refused("no run yet", "F5 starts one")
        read = partial(
            recorded_runs.experiment_to_repeat, view.run_id, tables, tuple(changes)
        )
        return RunRequest(view.preset, read)

    def to_resume(self, key: str) -> RunRequest:
        """Go on with a run that was stopped or killed, or has failed."""
        stored = self._ended(key, "resumed")
        read = partial(recorded_runs.experiment_to_resume, stored)
        return RunRequest(stored.preset, read, stored.run_id)

    def to_evaluate(self, key: str) -> RunRequest:
        """Measure a trained model on the test data: its record goes on from the end."""
        stored = self._ended(key, "evaluated")
        read = partial(recorded_runs.experiment_to_evaluate, stored)
        return RunRequest(stored.preset, read, stored.run_id)

    def take_turn(self, key: str) -> bool:
        """Let a run of the queue begin that was kept waiting; tell if it is one."""
        run = self.find(key)
        if run is None or not (run.held and run.waits):
            return False
        run.held = False
        self._start_next()
        self.chosen = run.key
        self.queue_changed.emit(self)
        return True

    def _ended(self, key: str, done: str) -> StoredRun:
        """Return the record of a run that no process works on, as it is now."""
        started = self.find(key)
        if started is not None and not started.over:
            problem = f"is {started.view.status.value}"
            hint = f"only a run that has ended can be {done}"
            raise Refused(problem, hint, f"run {started.key}")
        return self._stored(key)

    def _stored(self, key: str) -> StoredRun:
        """Return the record of a run as it is now, listed or not."""
        started = self.find(key)
        if self.record(key) is None and not (started and started.recorded):
            raise Refused("the run has no record yet")
        return recorded_runs.find(key, damaged_too=True)

    def annotate(self, key: str, **changes: Any) -> RunNotes:
        """Say something else about a run: `name`, `note`, `tags`, `pinned`."""
        stored = self._stored(key)
        notes = recorded_runs.annotate(stored, **changes)
        # Lists tell it at once.
        self._know(self.records, {**self.notes, stored.run_id: notes})
        return notes

    def notes_of(self, key: str) -> RunNotes:
        """Return what is said about a run; refuse one without a record."""
        return read_notes(self._stored(key).directory)

    def delete(self, key: str) -> str:
        """Delete a run that has ended, or take one out of the queue; return its id."""
        started = self.find(key)
        if started is not None and started.waits:
            self.started.remove(started)
            self.queue_changed.emit(self)
            return ""
        stored = self._stored(key)
        recorded_runs.delete(stored)
        if started is not None:
            self.started.remove(started)
        self._rename(key, "")
        self._know([run for run in self.records if run.run_id != key], self.notes)
        self.look()
        return stored.run_id


def run_title(preset: str, tables: Mapping[str, Any]) -> str:
    """Return what tells a run from others: its preset and what is changed."""
    try:
        spec, _ = check_tables(load_preset(preset).tables)
    except PresetError:
        return preset
    changes = differences(tables, spec_to_tables(spec)) if spec else ()
    named = [f"{item.path} {item.values[0]}" for item in changes[:_MOST_CHANGES]]
    return ", ".join([preset, *named])


def waiting_titles(runs: Iterable[StartedRun]) -> list[str]:
    """Return what tells runs that wait from each other; scripts cannot be kept."""
    return [
        run_title(run.preset, run.tables)
        + (", a script: cannot be kept" if "script" in run.tables else "")
        for run in runs
    ]
