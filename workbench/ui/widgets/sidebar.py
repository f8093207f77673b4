"""Presets and runs: what the rest of the screen is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from workbench.core.preset_store import Preset
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.widgets.filter_line import FilterLine
from workbench.ui.widgets.preset_list import PresetList
from workbench.ui.widgets.row_list import RowList
from workbench.ui.widgets.run_list import RunEntry, RunList


class Sidebar(Vertical):
    """Two lists and a line to filter both."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.START)]

    class PresetOpened(Message):
        """A preset is to be configured."""

    class RunOpened(Message):
        """A run is to be looked at."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class RunMarked(Message):
        """A run goes into the comparison or out of it."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class RunResumed(Message):
        """A run is to go on."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.presets = PresetList(id="presets")
        self.runs = RunList(id="runs")
        self._shown: tuple[Sequence[Preset], Collection[str]] = ((), ())
        self._entries: list[RunEntry] = []
        self._marked: list[str] = []
        self._words = ""

    def compose(self) -> ComposeResult:
        """Build the two lists."""
        self.presets.border_title = "Presets"
        self.runs.border_title = "Runs"
        yield self.presets
        yield self.runs

    def show_presets(self, presets: Sequence[Preset], changed: Collection[str]) -> None:
        """Show all presets that the filter lets through."""
        self._shown = (presets, changed)
        self.presets.show_presets(presets, changed, self._words)

    def show_runs(self, entries: Sequence[RunEntry], marked: Collection[str]) -> None:
        """Show all runs that the filter lets through."""
        state = (list(entries), list(marked))
        if state != (self._entries, self._marked):
            self._entries, self._marked = state
            self._show_runs()

    def _show_runs(self) -> None:
        self.runs.show_runs(self._entries, self._marked, self._words)

    @on(RowList.Resized)
    def _resized(self, event: RowList.Resized) -> None:
        event.stop()
        self._show_runs()

    async def action_list_filter(self) -> None:
        """Type words that the lists have to contain."""
        if not self.query(FilterLine):
            await self.mount(FilterLine(placeholder="filter, esc clears"), before=0)
        self.query_one(FilterLine).open_filter()

    @on(FilterLine.Changed)
    def _filter(self, event: FilterLine.Changed) -> None:
        event.stop()
        self._words = event.value
        self.show_presets(*self._shown)
        self._show_runs()

    @on(FilterLine.Closed)
    def _leave_filter(self) -> None:
        self.presets.focus()

    @on(RowList.Clicked)
    def action_list_open(self) -> None:
        """Configure the preset or look at the run."""
        if self.runs.has_focus and self.runs.cursor_key:
            self.post_message(self.RunOpened(self.runs.cursor_key))
        elif self.presets.cursor_key:
            self.post_message(self.PresetOpened())

    def action_list_mark(self) -> None:
        """Put the run into the comparison, or take it out."""
        if self.runs.cursor_key:
            self.post_message(self.RunMarked(self.runs.cursor_key))

    def action_run_resume(self) -> None:
        """Go on with the run under the cursor."""
        if self.runs.cursor_key:
            self.post_message(self.RunResumed(self.runs.cursor_key))

    def action_list_other(self) -> None:
        """Change between presets and runs."""
        self.screen.set_focus(self.presets if self.runs.has_focus else self.runs)
