"""A run that this process works on: its thread, and its view until it has a record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.record_follower import RecordFollower
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import open_run
from workbench.runs.run_view import RunView
from workbench.store_json import RecordError

if TYPE_CHECKING:
    # The app draws its first frame before it loads NumPy.
    from ipu_runtime.plan.plan import Plan


class Runner(Protocol):
    """What executes an experiment in the calling thread, and keeps its record."""

    def __call__(
        self,
        spec: ExperimentSpec,
        control: RunControl,
        emit: Callable[[Event], None],
        *,
        preset: str = "",
        resume: str | None = None,
        plan: Plan | None = None,
    ) -> RunStatus: ...


class Job(Protocol):
    """The work of one run, done in the calling thread."""

    def __call__(
        self,
        control: RunControl,
        emit: Callable[[Event], None],
        *,
        preset: str = "",
        resume: str | None = None,
    ) -> object: ...


Spawn = Callable[[Callable[[], None], str], object]
"""Runs a function in a thread of its own; the text says what it is for."""


def in_thread(work: Callable[[], None], name: str) -> None:
    """Run a function in a daemon thread, where no app looks after its threads."""
    threading.Thread(target=work, name=name, daemon=True).start()


@dataclass(eq=False)
class StartedRun:
    """A run that this process works on, or will when its turn comes."""

    number: int
    job: Job
    tables: dict[str, Any]
    preset: str
    resume: str | None = None
    held: bool = False
    """Whether it waits to be asked for: it was left by a process that is gone."""
    control: RunControl = field(default_factory=RunControl)
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when its thread has done all it will do; the record is complete then."""
    over: bool = False
    """Whether that has been noticed."""
    _before: RunView = field(init=False)
    """What is shown until it has a record."""
    _follower: RecordFollower | None = None
    _record: str = ""
    _end: RunEnded | None = None
    _outcome: tuple[RunStatus, str] | None = None
    """How its record says that it has ended, while its thread or process goes on."""

    def __post_init__(self) -> None:
        self._before = RunView.of(self.preset, self.tables, ())
        self._before.run_id = self.resume or ""

    @property
    def view(self) -> RunView:
        """How it stands."""
        return self._follower.view if self._follower else self._before

    @property
    def key(self) -> str:
        """Name under which lists know it: of its record, as soon as it has one."""
        return self.view.run_id or f"queued:{self.number}"

    @property
    def recorded(self) -> bool:
        """Whether it has a record that it writes or has written."""
        return self._follower is not None

    @property
    def waits(self) -> bool:
        """Whether its turn has not come."""
        return self._before.status is RunStatus.QUEUED

    def begin(self) -> None:
        """Let it count as running; its thread begins."""
        self._before.begin(activity="loading TensorFlow")

    def take_out(self) -> None:
        """Let it never begin."""
        self._before.status = RunStatus.STOPPED
        self._before.activity = "taken out of the queue"
        self.over = True

    def stop(self) -> None:
        """Ask its thread to end at the next piece of work, paused or not."""
        self.control.stop.set()
        self.control.resume()

    def work(self) -> None:
        """Execute it in the calling thread, whatever happens ending in an event."""
        try:
            self.job(self.control, self._told, preset=self.preset, resume=self.resume)
        except Exception as error:
            # The run's boundary: whatever breaks ends the run and not the app.
            self._end = RunEnded(RunStatus.FAILED, f"{type(error).__name__}: {error}")
        finally:
            self.ended.set()

    def _told(self, event: Event) -> None:
        """Take an event from the run's thread, which is in the record already."""
        if isinstance(event, RunStarted):
            self._record = event.run_id
        elif isinstance(event, RunEnded):
            self._end = event

    def follow(self) -> bool:
        """Take in what its record has got; tell if there was anything."""
        # Asked first, so that nothing written before the end is missed.
        over = self.ended.is_set()
        grew = False
        if self._follower is None and self._record:
            with suppress(RecordError):
                self._follower = RecordFollower(open_run(self._record))
                grew = True
        if self._follower is not None:
            grew |= self._follower.follow()
            if over:
                self._follower.catch_up()
        view = self.view
        if not (over or view.live):
            # Its record is complete, but what works on it can still be stopped.
            self._outcome = view.status, view.activity
            view.begin(activity="ending")
        if over and not self.over:
            self.over = grew = True
            if view.live and self._outcome is not None:
                view.status, view.activity = self._outcome
            elif view.live and self._end is not None:
                # A disk that is full takes no end, but whoever watches must know.
                view.add(self._end, time.time())
        return self._show_pause() or grew

    def _show_pause(self) -> bool:
        """Show at once what was asked for; the run does it at its next piece."""
        paused, view = self.control.paused, self.view
        before = RunStatus.RUNNING if paused else RunStatus.PAUSED
        if self.waits or view.status is not before:
            return False
        view.status = RunStatus.PAUSED if paused else RunStatus.RUNNING
        return True
