"""What is done with runs: start, queue, pause, stop, resume, mark, follow, leave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ipu_runtime.plan.quantities import plural
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.tables import spec_to_tables
from workbench.models.code_trust import trust
from workbench.models.model_source import SourceError
from workbench.runs.events import RunStatus
from workbench.runs.record_files import RecordError
from workbench.runs.run_notes import RunNotes, read_notes
from workbench.runs.run_store import StoredRun, list_runs
from workbench.scripts.script_command import ScriptCommand, recorded_command
from workbench.scripts.script_process import ScriptProcess
from workbench.store_files import names_in
from workbench.ui.controllers.known_runs import KnownRuns
from workbench.ui.controllers.run_board import Job, LiveRun, RunBoard, Runner
from workbench.ui.controllers.run_keeping import RunKeeping
from workbench.ui.controllers.run_queue import FORGET, STAY, RunQueue, run_title
from workbench.ui.controllers.trusting import trusts_script, trusts_sources

_LONG_S, _SHARE = 0.2, 10
_NO_RUN = "no run is live: F5 starts one"
OPENED = "opened"
"""Key of a script that has not run yet."""


class RunsView(Protocol):
    """What runs need of the screen, and of the loop that draws it."""

    def say(self, text: str, bad: bool = False) -> None: ...

    def runs_shown(self) -> None: ...

    async def show_area(self, name: str) -> None: ...

    async def confirm(self, question: str, yes: str, no: str) -> bool: ...

    async def ask_text(
        self, question: str, proposal: str, may_be_empty: bool = False
    ) -> str | None: ...

    async def choose(
        self, question: str, answers: Sequence[tuple[str, str]]
    ) -> str: ...

    def run_worker(
        self,
        work: Callable[[], object],
        *,
        group: str,
        exit_on_error: bool,
        thread: bool,
    ) -> object: ...

    def call_from_thread(
        self, callback: Callable[..., object], *args: Any, **kwargs: Any
    ) -> object: ...

    def exit(self) -> None: ...


class RunController:
    """Works on one run at a time and keeps up with those of other processes."""

    def __init__(
        self, view: RunsView, runner: Runner, clock: Callable[[], float] = time.time
    ) -> None:
        self._view, self._runner = view, runner
        self.board = RunBoard(clock)
        self.known = KnownRuns(self.board)
        self.keeping = RunKeeping(view, self.board, self.known, self.look_for_records)
        self.queue = RunQueue(view, self.board, partial(partial, runner))
        self.script: ScriptCommand | None = None
        """What F5 runs in place of the experiment."""
        self._named: set[Path] = set()
        self._leaving = False
        self._looking = False
        self._rest_until = 0.0

    async def start(
        self, spec: ExperimentSpec, preset: str, resume: str | None = None
    ) -> None:
        """Start an experiment, or put it into the queue, and show it."""
        job = partial(self._runner, spec)
        await self.start_job(job, spec_to_tables(spec), preset, resume)

    async def start_job(
        self, job: Job, tables: dict[str, Any], preset: str, resume: str | None = None
    ) -> LiveRun:
        """Start some work, or put it into the queue, and show it."""
        run = self.board.add(job, tables, preset, resume)
        self._start_next()
        if run.monitor.status is RunStatus.QUEUED:
            self._view.say(f"queued: {len(self.board.waiting)} waiting")
        else:
            self._view.say(f"{'resumed' if resume else 'started'} {preset}")
        await self.open(run.key)
        self._view.runs_shown()
        return run

    async def open_script(self, command: ScriptCommand) -> None:
        """Let F5 run a script, also when it has changed by then."""
        self.name(command)
        self.script = command
        self._view.say(f"{command.title} opened: F5 runs it")
        await self.open(OPENED)
        self._view.runs_shown()

    def name(self, command: ScriptCommand) -> None:
        """Remember a script that the user has named: it may run."""
        self._named.add(command.path)
        # What cannot be read is told when it is to run.
        with suppress(SourceError):
            trust(command.path)

    async def start_script(self, command: ScriptCommand, stays: bool = True) -> None:
        """Run a script, which F5 then runs again, if it `stays`."""
        if not command.path.is_file():
            self._view.say(f"cannot run: there is no {command.path}", bad=True)
            return
        if command.path not in self._named and not await trusts_script(
            self._view, command.title, command.path
        ):
            return
        self.script = command if stays else None
        job = ScriptProcess(command)
        await self.start_job(job, command.tables, command.name)

    def viewed_script(self) -> ScriptCommand | None:
        """Return the script of the run that is looked at, if it is one."""
        key = self.known.viewed
        live = self.board.find(key)
        if live is not None and isinstance(live.job, ScriptProcess):
            return live.job.command
        return recorded_command(self.known.tables(key).get("script", {}))

    def _start_next(self) -> None:
        run = self.board.next_to_start()
        if run is not None:
            self._in_thread(run.work, "run")
        self.queue.keep()

    def _in_thread(self, work: Callable[[], None], group: str) -> None:
        self._view.run_worker(work, group=group, exit_on_error=False, thread=True)

    def refresh(self) -> None:
        """Take in what live runs have sent; called a few times a second."""
        before = self.board.active
        arrived = sum(run.drain() for run in self.board.runs)
        if before is not None and not before.monitor.live:
            self._view.say(f"{before.monitor.preset} {before.monitor.activity}")
            self.known.pair_with_the_one_before(before)
            self.look_for_records()
        self._start_next()
        if self._leaving and self.board.active is None:
            self._view.exit()
        elif arrived or before is not None or self.known.follows:
            self._view.runs_shown()

    def look_for_records(self) -> None:
        """Read which runs there are, without keeping the screen waiting."""
        if not self._looking and time.monotonic() >= self._rest_until:
            self._looking = True
            self._in_thread(self._read_records, "records")

    def _read_records(self) -> None:
        began = time.monotonic()
        try:
            found = list_runs()
            notes = {run.run_id: read_notes(run.directory) for run in found}
        except RecordError as error:
            self._view.call_from_thread(self._view.say, str(error), bad=True)
            return
        finally:
            # A store so large that looking takes long is looked at less often.
            took = time.monotonic() - began
            self._rest_until = began + (_SHARE * took if took > _LONG_S else 0.0)
            self._looking = False
        if found != self.known.records or notes != self.known.notes:
            self._view.call_from_thread(self._records_found, found, notes)

    def _records_found(
        self, found: list[StoredRun], notes: Mapping[str, RunNotes]
    ) -> None:
        self.known.notes, self.known.records = notes, found
        self._view.runs_shown()

    async def open(self, key: str) -> None:
        """Look at a run."""
        self.known.chosen = key
        await self._view.show_area("run")

    def toggle_mark(self, key: str) -> None:
        """Put a run into the comparison, or take it out."""
        marked = self.known.marked
        if key in marked:
            marked.remove(key)
        else:
            marked.append(key)
        self._view.say(f"{plural(len(marked), 'run')} marked, 5 compares them")
        self._view.runs_shown()

    def clear_marks(self) -> None:
        """Take all runs out of the comparison."""
        self.known.marked.clear()
        self._view.runs_shown()

    async def again(self, key: str) -> None:
        """Start the experiment of a run once more."""
        monitor = self.known.monitor(key)
        if monitor is None:
            self._view.say("no run yet: F5 starts one")
            return
        if "script" in self.known.tables(key):
            await self._script_again(key)
            return
        spec = await self._spec_to("run", self.known.tables(key))
        if spec is not None:
            await self.start(spec, monitor.preset)

    def title(self, key: str) -> str:
        """Return the preset of a run and what is changed in it."""
        live, stored = self.board.find(key), self.known.record(key)
        preset = live.monitor.preset if live else stored.preset if stored else ""
        return run_title(preset, self.known.tables(key)) if preset else ""

    async def vary(self, key: str) -> bool:
        """Ask for one field, start the experiment of a run with it; tell if so."""
        monitor, tables = self.known.monitor(key), self.known.tables(key)
        if monitor is None or not tables or "script" in tables:
            self._view.say("there is no experiment to run again", bad=True)
            return False
        question = f"Run {monitor.preset} again with another value: field=value"
        text = await self._view.ask_text(question, "train.learning_rate=")
        if not text:
            return False
        changed, problems = apply_overrides(tables, [text])
        if problems:
            self._view.say(str(problems[0]), bad=True)
            return False
        spec = await self._spec_to("run", changed)
        if spec is not None:
            await self.start(spec, monitor.preset)
        return spec is not None

    async def _script_again(self, key: str) -> None:
        command, stored = self.viewed_script(), self.known.record(key)
        overlaid = stored is not None and "overridden" in stored.summary
        if command is None:
            self._view.say("cannot run: its record does not name it", bad=True)
        elif overlaid and self.board.find(key) is None:
            text = "fields were laid over it: F5 on its captured experiment runs it"
            self._view.say(f"cannot run again: {text}", bad=True)
        else:
            await self.start_script(command)

    async def resume(self, key: str) -> None:
        """Go on with a run that was stopped, killed or failed, or is kept waiting."""
        live = self.board.find(key)
        if live is not None and live.held and live in self.board.waiting:
            live.held = False
            self._view.say(f"{live.monitor.preset} takes its turn")
            self._start_next()
            await self.open(key)
            return
        stored = self._ended(key, "resumed")
        if stored is None:
            return
        if stored.status is RunStatus.FINISHED:
            self._view.say("the run is finished: nothing is left to do", bad=True)
            return
        spec = await self._spec_to("resume", stored.tables)
        if spec is not None:
            await self.start(spec, stored.preset, stored.run_id)

    async def evaluate(self, key: str) -> None:
        """Measure a trained model on the test data: its record goes on from the end."""
        stored = self._ended(key, "evaluated")
        if stored is None:
            return
        spec = await self._spec_to("evaluate", stored.tables)
        if spec is None:
            return
        if not names_in(stored.directory / "checkpoints"):
            self._view.say("the run has left no checkpoint to evaluate", bad=True)
            return
        done = stored.summary.get("epochs")
        done = done if type(done) is int and done > 0 else spec.train.epochs
        train = replace(spec.train, evaluate=True, epochs=done)
        await self.start(replace(spec, train=train), stored.preset, stored.run_id)

    def _ended(self, key: str, done: str) -> StoredRun | None:
        stored, live = self.known.record(key), self.board.find(key)
        waits = live is not None and live.monitor.live
        if stored is None or stored.live or waits:
            self._view.say(f"only a run that has ended can be {done}", bad=True)
            return None
        return stored

    async def _spec_to(
        self, verb: str, tables: Mapping[str, Any]
    ) -> ExperimentSpec | None:
        if "script" in tables:
            text = f"cannot {verb}: it is a run of a script; a runs it again"
            self._view.say(text, bad=True)
            return None
        if not await trusts_sources(self._view, "the record", tables):
            return None
        # Late: it loads the planner, which the first frame does without.
        from workbench.experiment.experiment_loading import recorded_experiment

        spec, problems = await asyncio.to_thread(recorded_experiment, tables)
        if spec is None:
            self._view.say(f"cannot {verb}: {problems[0]}", bad=True)
        return spec

    @property
    def pausable(self) -> bool:
        """Whether the live run can wait: a script cannot."""
        active = self.board.active
        return active is not None and "script" not in active.tables

    def pause(self) -> None:
        """Let the live run wait, or go on."""
        active = self.board.active
        if active is None:
            self._view.say(_NO_RUN)
        elif not self.pausable:
            self._view.say("a script cannot be paused: s stops it", bad=True)
        elif active.control.paused:
            active.control.resume()
            self._view.say("goes on")
        else:
            active.control.pause()
            self._view.say("paused: p goes on")

    async def stop(self) -> None:
        """Ask, then stop the live run; what is done is kept."""
        active = self.board.active
        if active is None:
            self._view.say(_NO_RUN)
            return
        question = f"Stop {active.monitor.preset}? What it has done so far is kept."
        if await self._view.confirm(question, "stop it", "let it go on"):
            self._stop(active)

    def _stop(self, run: LiveRun) -> None:
        run.stop()
        run.monitor.activity = "stopping"
        where = "the next piece of work"
        if "script" in run.tables:
            where = "its next line; one that goes on is terminated after 10 s"
        self._view.say(f"stopping at {where}")

    async def ask_to_leave(self) -> None:
        """Leave; with a live run ask, stop it and keep its record."""
        active = self.board.active
        if active is None:
            self._view.exit()
            return
        answer = await self.queue.ask_to_leave(active.monitor.preset)
        if answer == FORGET:
            self.board.cancel_waiting()
        if answer != STAY:
            self.leave()

    def leave(self) -> None:
        """Leave as soon as the live run, if any, is stopped; what waits is kept."""
        self.board.hold_waiting()
        self._leaving = True
        if self.board.active is not None:
            self._stop(self.board.active)
