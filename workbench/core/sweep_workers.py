"""Work shared out among processes, results as they come."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event as StopEvent
from typing import TypeVar

from workbench.core.run_context import RunControl

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Task, RunControl], Result]


class WorkerDied(Exception):
    """A process ended without a result, for example because it was killed."""


def work_here(
    tasks: Iterable[Task], work: Work[Task, Result], control: RunControl
) -> Iterator[Result]:
    """Do the tasks one after the other in this process."""
    for task in tasks:
        if control.should_stop():
            return
        yield work(task, control)


def work_in_processes(
    tasks: Iterable[Task], work: Work[Task, Result], jobs: int, control: RunControl
) -> Iterator[Result]:
    """Do the tasks in `jobs` processes; results come in no fixed order.

    Processes are started afresh, not copied, because TensorFlow's threads and a
    terminal app do not survive a copy.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    remaining = iter(tasks)
    workers = {}
    for _ in range(jobs):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, work, stop), daemon=True)
        process.start()
        theirs.close()
        workers[ours] = process
    idle = set(workers)
    busy: set[Connection] = set()
    try:
        while True:
            stopping = control.should_stop()
            if stopping:
                stop.set()
            while idle and not stopping:
                try:
                    task = next(remaining)
                except StopIteration:
                    break
                connection = idle.pop()
                connection.send(task)
                busy.add(connection)
            if not busy:
                return
            for ready in wait(list(busy), timeout=0.2):
                assert isinstance(ready, Connection)
                try:
                    result = ready.recv()
                except EOFError:
                    code = workers[ready].exitcode
                    raise WorkerDied(f"a worker ended early (code {code})") from None
                busy.discard(ready)
                idle.add(ready)
                yield result
    finally:
        for connection, process in workers.items():
            connection.close()
            process.terminate()
            process.join(timeout=5)


def _serve(connection: Connection, work: Work[Task, Result], stop: StopEvent) -> None:
    # The terminal sends ctrl+c to every process; only the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = RunControl()
    threading.Thread(target=_pass_on, args=(stop, control), daemon=True).start()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(work(task, control))


def _pass_on(stop: StopEvent, control: RunControl) -> None:
    stop.wait()
    control.stop.set()
