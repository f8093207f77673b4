"""What is done with scripts: open, run as they are or as changed, capture."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Protocol

from workbench.scripts.captured_script import captured_command, is_captured
from workbench.scripts.script_command import ScriptCommand
from workbench.ui.controllers.experiment import ExperimentController
from workbench.ui.controllers.runs import RunController
from workbench.ui.controllers.trusting import trusts_script


class ScriptsView(Protocol):
    """What scripts need of the screen."""

    def say(self, text: str, bad: bool = False) -> None: ...

    async def show_area(self, name: str) -> None: ...

    async def ask_text(self, question: str, proposal: str) -> str | None: ...

    async def ask_script(self, last: ScriptCommand | None) -> ScriptCommand | None: ...

    async def confirm(self, question: str, yes: str, no: str) -> bool: ...


class ScriptController:
    """Goes between the experiment that was captured and the runs of its script."""

    def __init__(
        self, view: ScriptsView, experiment: ExperimentController, runs: RunController
    ) -> None:
        self._view, self._experiment, self._runs = view, experiment, runs
        self._last: ScriptCommand | None = None

    def command(self) -> ScriptCommand | None:
        """Return the script that F5 would run; None if that is the experiment."""
        return self._runs.script or self._captured()[0]

    def _captured(self) -> tuple[ScriptCommand | None, str]:
        if not self._experiment.current_preset:
            return None, ""
        draft = self._experiment.draft
        if not is_captured(draft.tables):
            return None, ""
        return captured_command(draft.preset, draft.tables)

    async def start(self) -> bool:
        """Run the script that is on the screen; tell whether there is one."""
        if self._runs.script is not None:
            await self._runs.start_script(self._runs.script)
            return True
        command, reason = self._captured()
        if command is None and not reason:
            return False
        if reason:
            self._view.say(f"cannot run: {reason}", bad=True)
        elif command is not None and self._experiment.runnable() is not None:
            await self._runs.start_script(command, stays=False)
        return True

    async def open(self) -> None:
        """Put a script on the screen, or the experiment that was captured of one."""
        command = await self._view.ask_script(self._runs.script or self._last)
        if command is None:
            return
        if command.path.suffix == ".toml":
            await self._open_captured(str(command.path))
            return
        self._last = command
        await self._runs.open_script(command)

    async def _open_captured(self, path: str) -> None:
        if await self._experiment.load(path):
            self._runs.script = None
            await self._view.show_area("configure")

    async def capture(self) -> None:
        """Make an experiment of the script that is looked at."""
        command = self._runs.script or self._runs.viewed_script()
        if command is None:
            text = "only a script can be captured: o opens one"
            self._view.say(text, bad=True)
            return
        proposal = str(command.path.with_suffix(".toml"))
        question = f"Run {command.title} up to its first program, and write it to"
        output = await self._view.ask_text(question, proposal)
        if not output or not await self._may_write(output):
            return
        if not await trusts_script(self._view, command.title, command.path):
            return
        self._view.say(f"capturing {command.title}")
        code, said = await _capture(command, output)
        if code:
            reason = next((row for row in reversed(said) if row.strip()), "")
            self._view.say(f"cannot capture: {reason or f'exit code {code}'}", bad=True)
            return
        await self._open_captured(output)
        for remark in said:
            if remark.startswith("warning: "):
                self._view.say(remark)

    async def _may_write(self, output: str) -> bool:
        if not os.path.exists(os.path.expanduser(output)):
            return True
        question = f"{output} exists. Replace it?"
        return await self._view.confirm(question, "replace it", "keep it")


async def _capture(command: ScriptCommand, output: str) -> tuple[int, list[str]]:
    """Capture a script in a process of its own; it goes if nobody waits any more."""
    words = ["-P", "-m", "workbench", "capture", str(command.path.absolute())]
    words += ["--output", os.path.abspath(os.path.expanduser(output)), "--"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        *command.arguments,
        cwd=command.directory or None,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
    return process.returncode or 0, said.decode(errors="replace").splitlines()
