"""Asks for a script and its arguments."""

from __future__ import annotations

import os
import shlex
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from ipu_runtime.reports.document import BAD, MUTED
from workbench.scripts.script_command import ScriptCommand
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.plain import Static, Vertical
from workbench.views.content import line

_HINT = "tab changes the line, enter opens it, esc cancels; F5 then runs it"


class AskScript(SteadySize, ModalScreen[ScriptCommand | None]):
    """Two lines to type; what cannot be opened keeps it open and says why."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False)
    ]

    def __init__(self, last: ScriptCommand | None = None) -> None:
        super().__init__()
        self._last = last or ScriptCommand("")

    def compose(self) -> ComposeResult:
        """Build the box."""
        with Vertical(classes="box"):
            yield Static("Open a script, or the experiment captured of one")
            yield Input(
                self._last.file,
                placeholder="train.py, or captured.toml",
                classes="line-input",
                id="script-file",
            )
            yield Static("Its arguments")
            yield Input(
                shlex.join(self._last.arguments),
                placeholder="for example --epochs 2",
                classes="line-input",
                id="script-arguments",
            )
            yield Static(line((_HINT, MUTED)), id="script-hint")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one("#script-file").focus()

    @on(Input.Submitted)
    def _submit(self) -> None:
        file = self.query_one("#script-file", Input).value.strip()
        text = self.query_one("#script-arguments", Input).value
        try:
            command = ScriptCommand(
                os.path.expanduser(file),
                tuple(shlex.split(text)),
                self._last.directory,
                self._last.options if file == self._last.file else (),
            )
        except ValueError as error:
            self._refuse(f"arguments: {error}")
            return
        if not file:
            self._refuse("type the path of a script, or esc")
        elif not command.path.is_file():
            self._refuse(f"{file}: there is no such file")
        else:
            self.dismiss(command)

    def _refuse(self, reason: str) -> None:
        self.query_one("#script-hint", Static).update(line((reason, BAD)))

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)
