"""Scripts of the user's own: run them, in their own process, and capture them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from workbench.models.code_trust import trust
from workbench.models.model_source import SourceError
from workbench.scripts.captured_script import captured_command, is_captured
from workbench.scripts.script_command import ScriptCommand, recorded_command
from workbench.scripts.script_process import ChildCommand, ScriptProcess
from workbench.services.recorded_runs import script_to_repeat
from workbench.services.refused import Refused, check_target
from workbench.services.runs import Runs
from workbench.services.session import Session
from workbench.services.signal import Signal
from workbench.services.started_run import StartedRun
from workbench.services.trust import check_script

OPENED = "opened"
"""Key of a script that has not run yet."""


class Scripts:
    """Goes between the experiment that was captured and the runs of its script."""

    def __init__(self, session: Session, runs: Runs) -> None:
        self._session, self._runs = session, runs
        self._opened: ScriptCommand | None = None
        self._named: set[Path] = set()
        self.opened_changed: Signal[Scripts] = Signal()
        self.last: ScriptCommand | None = None
        """What was opened last, to be proposed again."""

    @property
    def opened(self) -> ScriptCommand | None:
        """What a start runs in place of the experiment."""
        return self._opened

    @opened.setter
    def opened(self, command: ScriptCommand | None) -> None:
        self._opened = command
        self.opened_changed.emit(self)

    def command(self) -> ScriptCommand | None:
        """Return the script that a start would run; None if that is the experiment."""
        if self._opened is not None or not self._session.current_preset:
            return self._opened
        draft = self._session.draft
        if not is_captured(draft.tables):
            return None
        command, reason = captured_command(draft.preset, draft.tables)
        if command is None:
            raise Refused(reason)
        return command

    def start(self) -> StartedRun | None:
        """Run the script that is worked on; None if that is an experiment."""
        opened, command = self._opened, self.command()
        if command is None:
            return None
        if opened is None:
            self._session.runnable()
        return self.run(command, stays=opened is not None)

    def open(self, command: ScriptCommand) -> None:
        """Let a start run a script, also when it has changed by then."""
        self.name(command)
        self.opened = self.last = command
        self._runs.chosen = OPENED

    def name(self, command: ScriptCommand) -> None:
        """Remember a script that the user has named: it may run."""
        self._named.add(command.path)
        # What cannot be read is told when it is to run.
        with suppress(SourceError):
            trust(command.path)

    def run(self, command: ScriptCommand, stays: bool = True) -> StartedRun:
        """Run a script in a process of its own; one that `stays` is opened too."""
        if not command.path.is_file():
            raise Refused(f"there is no {command.path}")
        if command.path not in self._named:
            check_script(command.title, command.path)
        self.opened = command if stays else None
        return self._runs.start_job(
            ScriptProcess(command), command.tables, command.name
        )

    def again(self, key: str) -> StartedRun:
        """Run the script of a run once more."""
        stored = self._runs.record(key)
        if self._runs.find(key) is not None or stored is None:
            command = self.viewed(key)
            if command is None:
                raise Refused("its record does not name it")
            return self.run(command)
        return self.run(script_to_repeat(stored))

    def viewed(self, key: str) -> ScriptCommand | None:
        """Return the script of a run, if it is one."""
        started = self._runs.find(key)
        if started is not None and isinstance(started.job, ScriptProcess):
            return started.job.command
        return recorded_command(self._runs.tables(key).get("script", {}))

    def to_capture(self) -> ScriptCommand:
        """Return the script that is looked at."""
        command = self._opened or self.viewed(self._runs.viewed)
        if command is None:
            raise Refused("only a script can be captured", "o opens one")
        return command


def capturing(command: ScriptCommand, output: str) -> ChildCommand:
    """Begin to capture a script to a file, in a process of its own."""
    check_capture(str(command.path), output)
    check_script(command.title, command.path)
    path = os.path.abspath(os.path.expanduser(output))
    return ChildCommand(command.capture_words(path), command.directory)


def captured(child: ChildCommand) -> list[str]:
    """Wait until a script is captured; return what is to be known of it."""
    code, said = child.result()
    rows = said.splitlines()
    if code:
        last = next((row for row in reversed(rows) if row.strip()), "")
        raise Refused(last or f"exit code {code}")
    return [row for row in rows if row.startswith("warning: ")]


def check_capture(script: str, output: str) -> None:
    """Refuse what could not be written, before the script runs for hours."""
    check_target("--output", output, script)
    path = Path(os.path.expanduser(output))
    if path.exists() and not path.is_file():
        text = f"{path} is no regular file, and another one is written beside it"
        raise Refused(text, "name a file", "--output")
