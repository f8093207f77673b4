"""What the app does with runs: start, queue, pause, stop, resume, follow, leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on, work

from workbench.core.draft import check_tables
from workbench.core.events import RunStatus
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.record_files import RecordError
from workbench.core.run_monitor import RunMonitor
from workbench.core.run_store import StoredRun, list_runs
from workbench.core.tables import spec_to_tables
from workbench.ui.content.pieces import plural
from workbench.ui.experiment_actions import ExperimentActions
from workbench.ui.run_board import LiveRun, RunBoard
from workbench.ui.widgets.run_list import RunEntry
from workbench.ui.widgets.sidebar import Sidebar

if TYPE_CHECKING:
    from workbench.ui.app_options import AppOptions
    from workbench.ui.areas.area import Area


class RunActions(ExperimentActions):
    """The half of the app that deals with runs."""

    board: RunBoard
    options: AppOptions
    area: Area
    area_name: str
    sidebar: Sidebar
    frozen: bool
    show_area: Callable[[str], Any]
    show_header: Callable[[], None]
    show_status: Callable[[], None]
    show_footer: Callable[[], None]

    def __init__(self, preset: str = "") -> None:
        super().__init__(preset)
        self.records: list[StoredRun] = []
        self.marked: list[str] = []
        self.viewed = ""
        """Key of the run that the Run area shows."""
        self._recorded: dict[str, tuple[int, RunMonitor]] = {}
        self._leaving = False
        self._looking = False

    async def action_run_start(self) -> None:
        """Start the current experiment, or put it into the queue."""
        reason = self.draft.why_not_run
        spec = self.draft.spec
        if reason or spec is None:
            self.say(f"cannot run: {reason}", bad=True)
            return
        await self.start_run(spec, self.draft.preset.name)

    async def start_run(
        self, spec: ExperimentSpec, preset: str, resume: str | None = None
    ) -> None:
        """Start an experiment and show it."""
        run = self.board.add(spec, spec_to_tables(spec), preset, resume)
        self.viewed = run.key
        self._start_next()
        if run.monitor.status is RunStatus.QUEUED:
            self.say(f"queued: {len(self.board.waiting)} waiting")
        else:
            self.say(f"{'resumed' if resume else 'started'} {preset}")
        await self.show_area("run")
        self.show_runs()

    def _start_next(self) -> None:
        run = self.board.next_to_start()
        if run is not None:
            self.run_worker(
                partial(run.work, self.options.runner),
                thread=True,
                group="run",
                exit_on_error=False,
            )

    def refresh_runs(self) -> None:
        """Take in what live runs have sent; called a few times a second."""
        before = self.board.active
        arrived = sum(run.drain() for run in self.board.runs)
        if before is not None and not before.monitor.live:
            self.say(f"{before.monitor.preset} {before.monitor.activity}")
            self.look_for_records()
        self._start_next()
        if self._leaving and self.board.active is None:
            self.exit()
            return
        if arrived or before is not None:
            self.show_status()
            self.show_header()
            self.show_footer()
            self.show_runs()
            self._show_progress()

    def look_for_records(self) -> None:
        """Read which runs there are, without keeping the screen waiting."""
        if not self._looking:
            self._looking = True
            self.run_worker(
                self._read_records, thread=True, group="records", exit_on_error=False
            )

    def _read_records(self) -> None:
        try:
            found = list_runs()
        except RecordError as error:
            self.call_from_thread(self.say, str(error), bad=True)
            return
        finally:
            self._looking = False
        self.call_from_thread(self._records_found, found)

    def _records_found(self, found: list[StoredRun]) -> None:
        if not self.is_running or found == self.records:
            return
        self.records = found
        self.show_runs()
        self._show_progress()

    def _show_progress(self) -> None:
        if not self.frozen:
            self.area.refresh_run()

    def show_runs(self) -> None:
        """Show all runs in the list."""
        self.sidebar.show_runs(self.run_entries(), self.marked)

    def run_entries(self) -> list[RunEntry]:
        """Return all runs: those of this app first, newest first."""
        live = [RunEntry.of_live(run) for run in reversed(self.board.runs)]
        own = {run.monitor.run_id for run in self.board.runs}
        stored = [RunEntry.of_record(run) for run in self.records]
        return live + [entry for entry in stored if entry.key not in own]

    def stored_run(self, key: str) -> StoredRun | None:
        """Return the record of a run, live ones included."""
        live = self.board.find(key)
        run_id = live.monitor.run_id if live else key
        return next((run for run in self.records if run.run_id == run_id), None)

    def monitor_of(self, key: str) -> RunMonitor | None:
        """Return what is known of a run; a record is read again when it has grown."""
        live = self.board.find(key)
        if live is not None:
            return live.monitor
        stored = self.stored_run(key)
        if stored is None:
            return None
        metrics = stored.directory / "metrics.jsonl"
        size = metrics.stat().st_size if metrics.exists() else 0
        known = self._recorded.get(key)
        if known is None or known[0] != size or known[1].status is not stored.status:
            monitor = RunMonitor.of(stored.preset, stored.tables, stored.events())
            monitor.run_id, monitor.status = stored.run_id, stored.status
            monitor.message = monitor.message or stored.message
            self._recorded[key] = (size, monitor)
        return self._recorded[key][1]

    def tables_of(self, key: str) -> dict[str, Any]:
        """Return the experiment of a run as tables."""
        live = self.board.find(key)
        if live is not None:
            return live.tables
        stored = self.stored_run(key)
        return dict(stored.tables) if stored else {}

    @property
    def viewed_run(self) -> RunMonitor | None:
        """The run that the Run area shows: the chosen one, or the newest."""
        if not self.viewed:
            entries = self.run_entries()
            return self.monitor_of(entries[0].key) if entries else None
        return self.monitor_of(self.viewed)

    @on(Sidebar.RunOpened)
    async def _open_run(self, event: Sidebar.RunOpened) -> None:
        self.viewed = event.key
        await self.show_area("run")

    @on(Sidebar.RunMarked)
    def _mark_run(self, event: Sidebar.RunMarked) -> None:
        self.toggle_mark(event.key)

    def toggle_mark(self, key: str) -> None:
        """Put a run into the comparison, or take it out."""
        if key in self.marked:
            self.marked.remove(key)
        else:
            self.marked.append(key)
        self.say(f"{plural(len(self.marked), 'run')} marked, 5 compares them")
        self.show_runs()

    @on(Sidebar.RunResumed)
    async def _resume_chosen(self, event: Sidebar.RunResumed) -> None:
        await self.resume_run(event.key)

    async def resume_run(self, key: str) -> None:
        """Go on with a run that was stopped, killed or failed."""
        stored = self.stored_run(key)
        if stored is None or stored.live:
            self.say("only a run that has ended can be resumed", bad=True)
            return
        if stored.status is RunStatus.FINISHED:
            self.say("the run is finished: nothing is left to do", bad=True)
            return
        spec, problems = check_tables(stored.tables)
        if spec is None:
            self.say(f"cannot resume: {problems[0]}", bad=True)
            return
        await self.start_run(spec, stored.preset, stored.run_id)

    async def evaluate_run(self, key: str) -> None:
        """Measure a trained model on the test data: its record goes on from the end."""
        stored = self.stored_run(key)
        if stored is None or stored.live:
            self.say("only a run that has ended can be evaluated", bad=True)
            return
        spec, problems = check_tables(stored.tables)
        if spec is None:
            self.say(f"cannot evaluate: {problems[0]}", bad=True)
            return
        if not any((stored.directory / "checkpoints").glob("*")):
            self.say("the run has left no checkpoint to evaluate", bad=True)
            return
        done = stored.summary.get("epochs")
        done = done if type(done) is int and done > 0 else spec.train.epochs
        train = replace(spec.train, evaluate=True, epochs=done)
        await self.start_run(replace(spec, train=train), stored.preset, stored.run_id)

    def action_run_pause(self) -> None:
        """Let the live run wait, or go on."""
        active = self.board.active
        if active is None:
            self.say("no run is live: F5 starts one")
        elif active.control.paused:
            active.control.resume()
            self.say("goes on")
        else:
            active.control.pause()
            self.say("paused: p goes on")

    @work
    async def action_run_stop(self) -> None:
        """Ask, then stop the live run; what is done is kept."""
        # Built only when asked for.
        from workbench.ui.screens.question import Confirm

        active = self.board.active
        if active is None:
            self.say("no run is live: F5 starts one")
            return
        question = f"Stop {active.monitor.preset}? What it has done so far is kept."
        if await self.push_screen_wait(Confirm(question, "stop it", "let it go on")):
            self._stop(active)

    def _stop(self, run: LiveRun) -> None:
        run.control.stop.set()
        run.control.resume()
        run.monitor.activity = "stopping"
        self.say("stopping at the next piece of work")
        self.show_status()

    @work
    async def action_app_leave(self) -> None:
        """Leave; with a live run ask, stop it and keep its record."""
        # Built only when asked for.
        from workbench.ui.screens.question import Confirm

        active = self.board.active
        if active is None:
            self.exit()
            return
        question = (
            f"{active.monitor.preset} is running. Stop it, keep its record, leave?"
        )
        if await self.push_screen_wait(Confirm(question, "stop and leave", "stay")):
            self.leave()

    def leave(self) -> None:
        """Leave as soon as the live run, if any, is stopped and its record kept."""
        self.board.cancel_waiting()
        self._leaving = True
        if self.board.active is not None:
            self._stop(self.board.active)
