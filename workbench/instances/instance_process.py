"""One instance of a run: a process that trains with the others and tells of it."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

from ipu_runtime.system.environment import prepare_environment
from ipu_runtime.system.instances import current_instance
from workbench.instances.instance_lines import (
    Alive,
    Failed,
    Here,
    Note,
    line_of,
)
from workbench.runs.events import Event, Progressed
from workbench.runs.run_context import RunContext, RunControl

ALIVE_EVERY_S = 1.0


class _Channel:
    """Lines to whoever has started the instance, from any thread."""

    def __init__(self) -> None:
        # What libraries and models print must not get between the lines.
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._writing = threading.Lock()

    def send(self, said: Event | Note) -> None:
        """Write a line; nobody to read it is the end of the run."""
        try:
            with self._writing:
                self._stream.write(line_of(said))
                self._stream.flush()
        except OSError:
            os._exit(1)


class _Control(RunControl):
    """Ends the process where a training loop would stop.

    What follows the loop is done by all instances together, and the others wait inside
    of theirs.
    """

    def should_stop(self) -> bool:
        """Wait while paused; leave when asked to stop."""
        if super().should_stop():
            _leave(0)
        return False


def _leave(code: int) -> NoReturn:
    """End, but not by way of TensorFlow's own end, which may wait for others."""
    sys.stderr.flush()
    os._exit(code)


def main() -> int:
    """Train as the order says; return the exit code."""
    channel, control = _Channel(), _Control()
    order = json.loads(sys.stdin.readline())
    _beside(lambda: _obey(sys.stdin, control))
    channel.send(Here(socket.gethostname(), os.getpid()))
    _beside(lambda: _show_life(channel))
    try:
        _train(order, control, channel)
    except Exception as error:
        traceback.print_exc()
        channel.send(_failure(error))
        return 1
    if current_instance().index:
        # The first one evaluates, and connections end with a process.
        threading.Event().wait()
    return 0


def _train(order: dict[str, Any], control: RunControl, channel: _Channel) -> None:
    prepare_environment()
    # Late, because TensorFlow reads the environment, and takes seconds to load.
    from ipu_runtime.system.cluster import join
    from ipu_runtime.system.garbage import rarely_collected
    from workbench.backends import backend_of
    from workbench.experiment.experiment_loading import recorded_experiment
    from workbench.models.code_trust import leave_to_parent
    from workbench.planning.experiment_plan import plan_experiment

    instance = join()
    leave_to_parent()
    spec, problems = recorded_experiment(order["spec"])
    if spec is None:
        raise ValueError("; ".join(map(str, problems)))

    def emit(event: Event) -> None:
        # The first one speaks for the run; of the others only times are wanted.
        if instance.index == 0 or isinstance(event, Progressed):
            channel.send(event)

    directory = Path(order["directory"])
    name = order["checkpoint"]
    context = RunContext(
        emit,
        control,
        directory,
        plan_experiment(spec),
        order["first_epoch"],
        directory / "checkpoints" / name if name else None,
        instance,
    )
    with rarely_collected():
        backend_of(spec.execution.api)(spec, context)


def _obey(commands: TextIO, control: RunControl) -> None:
    """Follow commands; the end of them is the end of whoever gives them."""
    known = {"pause": control.pause, "resume": control.resume, "stop": control.stop.set}
    for line in commands:
        known[line.strip()]()
    _leave(1)


def _show_life(channel: _Channel) -> None:
    while True:
        used = resource.getrusage(resource.RUSAGE_SELF)
        channel.send(Alive(used.ru_utime + used.ru_stime))
        time.sleep(ALIVE_EVERY_S)


def _failure(error: Exception) -> Failed:
    # Late, because it loads NumPy and TensorFlow, as the training has by now.
    from ipu_runtime.system.ring import LostInstanceError
    from workbench.runs.runner import describe_error

    return Failed(describe_error(error), isinstance(error, LostInstanceError))


def _beside(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


if __name__ == "__main__":
    _leave(main())
