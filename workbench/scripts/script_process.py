"""Runs a script in a process of its own and tells what its record tells."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from workbench.locations import runs_directory
from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.record_files import read_json
from workbench.runs.record_follower import RecordFollower
from workbench.runs.run_context import RunControl
from workbench.scripts.script_command import ScriptCommand
from workbench.store_files import names_in

_EVERY_S = 0.1
_PATIENCE_S = 10.0
"""How long a script may take to end after a signal; then a harder one follows."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_MOST_BYTES = 8_000
_INTERRUPTED = 130


class ScriptProcess:
    """Executes a script in the calling thread's place; a board's `Job`."""

    def __init__(self, command: ScriptCommand) -> None:
        self.command = command
        self._said = b""
        """The end of what it has printed, for when it fails without a record."""
        self._recorded_end: RunEnded | None = None

    def __call__(
        self,
        control: RunControl,
        emit: Callable[[Event], None],
        *,
        preset: str = "",
        resume: str | None = None,
    ) -> None:
        """Run it to its end, or until it is stopped."""
        before = _names()
        with subprocess.Popen(
            self.command.process,
            cwd=self.command.directory or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The terminal is the app's: it can neither read it nor write to it.
            start_new_session=True,
        ) as process:
            self._follow(process, control, emit, before)
        # Not earlier: what the script leaves running can still be stopped.
        end = self._recorded_end
        emit(end or self._end(process.returncode, control.stop.is_set()))

    def _follow(
        self,
        process: subprocess.Popen[bytes],
        control: RunControl,
        emit: Callable[[Event], None],
        before: set[str],
    ) -> None:
        follower: RecordFollower | None = None
        stopping = _Stopping(process)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        with selectors.DefaultSelector() as output:
            output.register(process.stdout, selectors.EVENT_READ)
            over = False
            while not over:
                # Asked first, so that nothing written before the end is missed.
                over = process.poll() is not None
                self._read(output, 0.0 if over else _EVERY_S)
                directory = None if follower else _record_of(process.pid, before)
                if directory is not None:
                    follower = RecordFollower(directory)
                    # It may end before it has written an event.
                    name, tables = self.command.name, self.command.tables
                    emit(RunStarted(directory.name, name, tables))
                for event, _ in follower.new_events() if follower else ():
                    if isinstance(event, RunEnded):
                        self._recorded_end = event
                    elif not isinstance(event, RunStarted):
                        emit(event)
                if control.stop.is_set():
                    stopping.insist()

    def _read(self, output: selectors.BaseSelector, wait_s: float) -> None:
        """Take what was printed until the time is over; a pipe must not fill up."""
        until = time.monotonic() + wait_s
        while left := output.select(max(0.0, until - time.monotonic())):
            chunk = os.read(left[0][0].fd, 1 << 16)
            if not chunk:
                output.unregister(left[0][0].fileobj)
                break
            self._said = (self._said + chunk)[-_MOST_BYTES:]
            if time.monotonic() >= until:
                return
        time.sleep(max(0.0, until - time.monotonic()))

    def _end(self, code: int, stopped: bool) -> RunEnded:
        """Return the end of a script whose record does not tell it."""
        printed = self._said.decode(errors="replace").split("\n")
        last = next((line.strip() for line in printed[::-1] if line.strip()), "")
        if code < 0:
            text = f"the script was ended by {signal.Signals(-code).name}"
            last = f"; it printed last: {last}" if last else ""
            return RunEnded(RunStatus.KILLED, text + last)
        if stopped or code == _INTERRUPTED:
            return RunEnded(RunStatus.STOPPED, "interrupted")
        reason = last or f"the script ended with exit code {code}"
        return RunEnded(RunStatus.FAILED, reason)


class _Stopping:
    """Sends one signal after the other until the process is gone."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._waiting = list(_SIGNALS)
        self._next_at = 0.0

    def insist(self) -> None:
        """Send the next signal once the last one has had its time."""
        if not self._waiting or time.monotonic() < self._next_at:
            return
        if self._process.poll() is None:
            # What the script has started belongs to its group.
            os.killpg(self._process.pid, self._waiting.pop(0))
            self._next_at = time.monotonic() + _PATIENCE_S


def _names() -> set[str]:
    return set(names_in(runs_directory()))


def _record_of(pid: int, before: set[str]) -> Path | None:
    """Return the record that a process has opened since."""
    for name in _names() - before:
        directory = runs_directory() / name
        if not name.startswith(".") and (
            (read_json(directory / "run.json") or {}).get("pid") == pid
        ):
            return directory
    return None
