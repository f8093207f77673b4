"""The runs that this app has started: one at a time, the others wait."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Protocol

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.record_files import RecordError
from workbench.runs.run_context import RunControl
from workbench.runs.run_monitor import RunMonitor
from workbench.runs.run_store import open_run


class Runner(Protocol):
    """What executes an experiment in the calling thread."""

    def __call__(
        self,
        spec: ExperimentSpec,
        control: RunControl,
        emit: Callable[[Event], None],
        *,
        preset: str = "",
        resume: str | None = None,
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


@dataclass
class LiveRun:
    """A run of this app and the line from its thread to the screen."""

    number: int
    job: Job
    tables: dict[str, Any]
    monitor: RunMonitor
    resume: str | None = None
    held: bool = False
    """Whether it waits to be asked for: it was left by an app that is gone."""
    control: RunControl = field(default_factory=RunControl)
    clock: Callable[[], float] = time.time
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when its thread has done all it will do; the record is complete then."""
    _arrived: deque[tuple[float, Event]] = field(default_factory=deque)

    @property
    def key(self) -> str:
        """Name under which lists know it."""
        return f"live:{self.number}"

    def emit(self, event: Event) -> None:
        """Take an event from the run's thread; nothing else is touched there."""
        self._arrived.append((self.clock(), event))

    def drain(self) -> int:
        """Let the monitor see what has arrived; called by the screen's thread."""
        count = 0
        while self._arrived:
            at, event = self._arrived.popleft()
            if self.resume and isinstance(event, RunStarted):
                self._take_up(self.resume)
            self.monitor.add(event, at)
            count += 1
        if self.monitor.status is RunStatus.RUNNING and self.control.paused:
            self.monitor.status = RunStatus.PAUSED
        elif self.monitor.status is RunStatus.PAUSED and not self.control.paused:
            self.monitor.status = RunStatus.RUNNING
        return count

    def _take_up(self, run_id: str) -> None:
        """Let the monitor know what counts of the run before it was resumed."""
        # Curves that begin here are better than none.
        with suppress(RecordError):
            events = open_run(run_id).timed_events()
            for at, event in takewhile(_is_past, events):
                self.monitor.add(event, at)

    def stop(self) -> None:
        """Ask its thread to end at the next piece of work, paused or not."""
        self.control.stop.set()
        self.control.resume()

    def work(self) -> None:
        """Execute it in the calling thread, whatever happens ending in an event."""
        try:
            preset = self.monitor.preset
            self.job(self.control, self.emit, preset=preset, resume=self.resume)
        except Exception as error:
            # The run's boundary: whatever breaks ends the run and not the app.
            message = f"{type(error).__name__}: {error}"
            self.emit(RunEnded(RunStatus.FAILED, message))
        finally:
            self.ended.set()


def _is_past(timed: tuple[float, Event]) -> bool:
    """Tell whether it was before the newest start, the only one that a record tells."""
    return not isinstance(timed[1], RunStarted)


class RunBoard:
    """Runs in the order in which they were started."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.runs: list[LiveRun] = []
        self._started = 0

    @property
    def active(self) -> LiveRun | None:
        """The run that is being worked on."""
        for run in self.runs:
            if run.monitor.live and run.monitor.status is not RunStatus.QUEUED:
                return run
        return None

    @property
    def waiting(self) -> list[LiveRun]:
        """Runs whose turn has not come."""
        return [run for run in self.runs if run.monitor.status is RunStatus.QUEUED]

    def add(
        self,
        job: Job,
        tables: dict[str, Any],
        preset: str,
        resume: str | None = None,
    ) -> LiveRun:
        """Put a run at the end of the queue; one that is resumed stays one run."""
        monitor = RunMonitor.of(preset, tables, ())
        monitor.run_id = resume or ""
        self._started += 1
        number = self._started
        if resume and (before := self.find(resume)) is not None:
            self.runs.remove(before)
            number = before.number
        run = LiveRun(number, job, tables, monitor, resume, clock=self._clock)
        self.runs.append(run)
        return run

    def next_to_start(self) -> LiveRun | None:
        """Return the run whose turn it is, marked as begun."""
        due = [run for run in self.waiting if not run.held]
        if self.active is not None or not due:
            return None
        run = due[0]
        run.monitor.status = RunStatus.RUNNING
        run.monitor.activity = "loading TensorFlow"
        return run

    def hold_waiting(self) -> None:
        """Let every run that has not begun wait until it is asked for."""
        for run in self.waiting:
            run.held = True

    def cancel_waiting(self) -> None:
        """Take every run whose turn would come out of the queue."""
        for run in [run for run in self.waiting if not run.held]:
            run.monitor.status = RunStatus.STOPPED
            run.monitor.activity = "taken out of the queue"

    def find(self, key: str) -> LiveRun | None:
        """Return a run by its key or by the id of its record."""
        for run in self.runs:
            if run.key == key or (run.monitor.run_id and run.monitor.run_id == key):
                return run
        return None
