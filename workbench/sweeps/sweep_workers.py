"""Work shared out among processes, results as they come."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from workbench.runs.run_context import RunControl
from workbench.store_json import RecordError

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Task, RunControl], Result]
ATTEMPTS = 2
"""How often a task is begun whose process dies."""
_LOOK_EVERY_S = 0.2
_PATIENCE_S = 4.0
"""How long processes may take to stop; what they had begun counts as killed then."""


def work_here(
    tasks: Iterable[Task], work: Work[Task, Result], control: RunControl
) -> Iterator[Result]:
    """Do the tasks one after the other in this process."""
    for task in tasks:
        if control.should_stop():
            return
        yield work(task, control)


def work_in_threads(
    tasks: Iterable[Task], work: Work[Task, Result], jobs: int, control: RunControl
) -> Iterator[Result]:
    """Do the tasks in `jobs` threads, for work that other machines do.

    Results come in no fixed order. Tasks that have not begun when all is to stop are
    left out.
    """

    def begin(task: Task) -> list[Result]:
        return [] if control.should_stop() else [work(task, control)]

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(begin, task) for task in tasks]):
                yield from done.result()
        except BaseException:
            # The others would be waited for.
            control.stop.set()
            raise


def work_in_processes(
    tasks: Iterable[Task],
    work: Work[Task, Result],
    lost: Callable[[Task, str], Result],
    jobs: int,
    control: RunControl,
) -> Iterator[Result]:
    """Do the tasks in `jobs` processes; results come in no fixed order.

    Processes are started afresh, not copied, because TensorFlow's threads and a
    terminal app do not survive a copy. A task whose process dies is tried once more.

    Args:
        lost: makes the result of a task that cost two processes their lives.
    """
    team = _Team(work)
    remaining = ((task, 1) for task in tasks)
    again: list[tuple[Task, int]] = []
    try:
        while not control.should_stop():
            while len(team.busy) < jobs:
                given = again.pop() if again else next(remaining, None)
                if given is None:
                    break
                team.give(*given)
            if not team.busy:
                return
            for result, task, attempt in team.ended():
                if result is not None:
                    yield result
                elif attempt < ATTEMPTS:
                    again.append((task, attempt + 1))
                else:
                    yield lost(task, f"its process ended {attempt} times")
        yield from team.stopped()
    finally:
        team.leave()


class _Team(Generic[Task, Result]):
    """Processes that each do one task at a time."""

    def __init__(self, work: Work[Task, Result]) -> None:
        _start_tracker()
        self._context = multiprocessing.get_context("spawn")
        self._work = work
        # Nothing is ever sent: the end of it is what they wait for.
        self._stopping, self._going = self._context.Pipe(duplex=False)
        self._processes: dict[Connection, BaseProcess] = {}
        self._idle: list[Connection] = []
        self.busy: dict[Connection, tuple[Task, int]] = {}

    def give(self, task: Task, attempt: int) -> None:
        """Let an idle process, or a new one, do a task."""
        connection = self._idle.pop() if self._idle else self._started()
        self.busy[connection] = task, attempt
        # A process that has died meanwhile is found when its result is waited for.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.send(task)

    def _started(self) -> Connection:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, self._work, self._stopping), daemon=True
        )
        process.start()
        theirs.close()
        self._processes[ours] = process
        return ours

    def ended(self) -> Iterator[tuple[Result | None, Task, int]]:
        """Return what has ended within a moment; no result if its process died."""
        for ready in wait(list(self.busy), timeout=_LOOK_EVERY_S):
            assert isinstance(ready, Connection)
            task, attempt = self.busy.pop(ready)
            try:
                result = ready.recv()
                self._idle.append(ready)
                if isinstance(result, RecordError):
                    raise result
            except (EOFError, ConnectionResetError):
                result = None
                self._processes.pop(ready).join()
            yield result, task, attempt

    def stopped(self) -> Iterator[Result]:
        """Stop what goes on; return what comes to a good end in time."""
        self._going.close()
        until = time.monotonic() + _PATIENCE_S
        while self.busy and time.monotonic() < until:
            for result, _, _ in self.ended():
                if result is not None:
                    yield result

    def leave(self) -> None:
        """End all processes; idle ones leave when nobody is connected any more."""
        for connection, process in self._processes.items():
            connection.close()
            if connection in self.busy:
                process.kill()
            process.join()
        self._going.close()
        self._stopping.close()


def _start_tracker() -> None:
    """Start the process that cleans up after us, so that it outlives a hang-up.

    It spares itself the other signals that a group gets. What is blocked here while it
    starts stays blocked there.
    """
    hang_up = {signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, hang_up)
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    connection: Connection, work: Work[Task, Result], stopping: Connection
) -> None:
    # A terminal tells every process of the group; only the first one decides.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    control = RunControl()
    threading.Thread(target=_pass_on, args=(stopping, control), daemon=True).start()
    while True:
        try:
            connection.send(_done(work, connection.recv(), control))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _done(
    work: Work[Task, Result], task: Task, control: RunControl
) -> Result | RecordError:
    try:
        return work(task, control)
    except RecordError as error:
        # No fault of the task, which is left to whoever goes on with the sweep.
        return error


def _pass_on(stopping: Connection, control: RunControl) -> None:
    """Stop when the first process says so or is gone, however it went."""
    wait([stopping])
    control.stop.set()
    time.sleep(_PATIENCE_S)
    # Nobody may be left to do it.
    os._exit(1)
