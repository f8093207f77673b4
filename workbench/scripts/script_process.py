"""Commands of the workbench in processes of their own: scripts run there, are captured.

[Note: a script's process]
A script may do anything: end its interpreter, ignore signals, start processes. So it
never runs in the app: a child runs `ipu-workbench exec`, which keeps the record, and
tells the id of that record through a pipe as soon as it is there. Whoever shows the run
follows the record; the parent reads what is printed only to say why a child without a
record has failed, and sends signals to the child's whole group.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import open_run
from workbench.scripts.script_command import ScriptCommand
from workbench.store_json import RecordError

_EVERY_S = 0.1
_PATIENCE_S = 10.0
"""How long a script may take to end after a signal; then a harder one follows."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_MOST_BYTES = 8_000
_INTERRUPTED = 130


class ChildCommand:
    """A command of the workbench in a process of its own, which ends with this one.

    To be used in a `with`, on any thread; `end` may be called on another one.
    """

    def __init__(self, words: Sequence[str], directory: str = "") -> None:
        """Start it; what it prints as results goes nowhere."""
        self._process = subprocess.Popen(
            child_words(words),
            cwd=directory or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def __enter__(self) -> ChildCommand:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def result(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it has said."""
        _, said = self._process.communicate()
        return self._process.returncode, said.rstrip()

    def end(self) -> None:
        """End it with all that it has started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)


def child_words(words: Sequence[str]) -> list[str]:
    """Return how this interpreter runs a command; a folder's modules are not ours."""
    return [sys.executable, "-P", "-m", "workbench", *words]


class ScriptProcess:
    """Executes a script in the calling thread's place; a `Job` of `Runs`."""

    def __init__(self, command: ScriptCommand) -> None:
        self.command = command
        self._said = b""
        """The end of what it has printed, for when it fails without a record."""
        self._run_id = b""

    def __call__(
        self,
        control: RunControl,
        emit: Callable[[Event], None],
        *,
        preset: str = "",
        resume: str | None = None,
    ) -> None:
        """Run it to its end, or until it is stopped."""
        told, telling = os.pipe()
        words = self.command.exec_words("--tell-record", str(telling))
        with (
            os.fdopen(told, "rb", buffering=0) as record,
            subprocess.Popen(
                child_words(words),
                cwd=self.command.directory or None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[telling],
                # The terminal is the app's: it can neither read it nor write to it.
                start_new_session=True,
            ) as process,
        ):
            os.close(telling)
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            with selectors.DefaultSelector() as output:
                output.register(process.stdout, selectors.EVENT_READ, self._keep_said)
                take = self._take_record(emit)
                output.register(record, selectors.EVENT_READ, take)
                self._watch(process, control, output)
        # Not earlier: what the script leaves running can still be stopped.
        emit(self._end(process.returncode, control.stop.is_set()))

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        control: RunControl,
        output: selectors.BaseSelector,
    ) -> None:
        stopping = _Stopping(process)
        over = False
        while not over:
            # Asked first, so that nothing written before the end is missed.
            over = process.poll() is not None
            self._read(output, 0.0 if over else _EVERY_S)
            if control.stop.is_set():
                stopping.insist()

    def _read(self, output: selectors.BaseSelector, wait_s: float) -> None:
        """Take what comes until the time is over; a pipe must not fill up."""
        until = time.monotonic() + wait_s
        while output.get_map() and (
            ready := output.select(max(0.0, until - time.monotonic()))
        ):
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                key.data(chunk)
                if not chunk:
                    output.unregister(key.fileobj)
            if time.monotonic() >= until and wait_s:
                return
        time.sleep(max(0.0, until - time.monotonic()))

    def _keep_said(self, chunk: bytes) -> None:
        self._said = (self._said + chunk)[-_MOST_BYTES:]

    def _take_record(self, emit: Callable[[Event], None]) -> Callable[[bytes], None]:
        def take(chunk: bytes) -> None:
            self._run_id += chunk
            if chunk.endswith(b"\n"):
                name = self._run_id.decode().strip()
                emit(RunStarted(name, self.command.name, self.command.tables))

        return take

    def _end(self, code: int, stopped: bool) -> RunEnded:
        """Return how it ended: what its record says, or else what it printed last."""
        with suppress(RecordError):
            run = open_run(self._run_id.decode().strip())
            if run.status is not RunStatus.KILLED:
                return RunEnded(run.status, run.message)
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
