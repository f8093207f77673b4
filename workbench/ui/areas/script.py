"""Script: the experiment as Python for the real API."""

from __future__ import annotations

from typing import ClassVar

from rich.syntax import Syntax
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from ipu_runtime.reports.document import BAD
from workbench.script_export import ScriptError, export_script
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.widgets.plain import Static, VerticalScroll
from workbench.views.content import line


class ScriptArea(Area):
    """The script, to read, copy and save."""

    SCOPE: ClassVar[Scope] = Scope.SCRIPT
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.SCRIPT)]

    def compose(self) -> ComposeResult:
        """Build the scrolling text."""
        with VerticalScroll(id="script-scroll", classes="panel", can_focus=True):
            yield Static(id="script")

    def focus_target(self) -> Widget:
        """The text scrolls."""
        return self.query_one("#script-scroll")

    def refresh_area(self) -> None:
        """Write the script of the present values."""
        text, reason = self._script()
        panel = self.query_one("#script-scroll")
        panel.border_title = f"Script of {self.draft.preset.name}"
        panel.border_subtitle = "runs on an IPU, and here: ipu-workbench exec SCRIPT"
        static = self.query_one("#script", Static)
        if reason:
            static.update(line((f"No script: {reason}", BAD)))
            return
        dark = self.app.current_theme.dark
        theme = "ansi_dark" if dark else "ansi_light"
        static.update(
            Syntax(
                text, "python", theme=theme, background_color="default", word_wrap=True
            )
        )

    def _script(self) -> tuple[str, str]:
        spec = self.draft.spec
        if spec is None:
            return "", self.draft.why_not_run
        try:
            return export_script(spec), ""
        except ScriptError as error:
            return "", str(error)

    def action_script_copy(self) -> None:
        """Put the script on the clipboard."""
        text, reason = self._script()
        if reason:
            self.say(f"no script: {reason}", bad=True)
            return
        self.app.copy_to_clipboard(text)
        self.say(f"copied {len(text.splitlines())} lines")

    @work
    async def action_script_save(self) -> None:
        """Write the script to a file."""
        text, reason = self._script()
        if reason:
            self.say(f"no script: {reason}", bad=True)
            return
        name = self.draft.preset.name.replace("-", "_")
        await self.save_text(f"{name}.py", text)
