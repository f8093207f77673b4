"""Presets and runs: what the rest of the screen is about."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.runs.run_notes import notes_text
from workbench.services.run_entries import RunEntry
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.handlers import Handlers
from workbench.ui.widgets.filter_line import FilterLine
from workbench.ui.widgets.plain import Vertical
from workbench.ui.widgets.row_list import RowList
from workbench.ui.widgets.sidebar_lists import PresetList, RunList


class Sidebar(Vertical):
    """Two lists and a line to filter both."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.START),
        Binding("escape", "clear_filter", "Clear the filter", show=False),
    ]

    def __init__(self, handlers: Handlers) -> None:
        super().__init__(id="sidebar")
        self._handlers = handlers
        self.presets = PresetList(id="presets")
        self.runs = RunList(id="runs")
        self._shown: tuple[list[RunEntry], list[str]] = ([], [])
        self._words = ""

    def compose(self) -> ComposeResult:
        """Build the two lists."""
        self.presets.border_title = "Presets"
        self.runs.border_title = "Runs"
        yield self.presets
        yield self.runs

    def show_presets(self) -> None:
        """Show all presets that the filter lets through."""
        session = self._handlers.session
        self.presets.show_presets(
            session.presets, session.changed_presets(), self._words
        )

    def show_runs(self) -> None:
        """Show all runs that the filter lets through, if they are others now."""
        runs = self._handlers.runs
        state = (runs.entries(), list(self._handlers.marked.keys))
        if state != self._shown:
            self._shown = state
            self._show_runs()

    def _show_runs(self) -> None:
        (entries, marked), runs = self._shown, self._handlers.runs
        words = self._words
        if words:
            entries = [item for item in entries if runs.lets_through(item, words)]
        self.runs.show_runs(entries, marked, words)
        self._show_run_facts()

    @on(RowList.Highlighted, "#runs")
    def _show_run_facts(self) -> None:
        """Say below the list which run is under the cursor."""
        entry = next(
            (item for item in self._shown[0] if item.key == self.runs.cursor_key), None
        )
        facts = (entry.run_id, notes_text(entry.notes)) if entry else ()
        self.runs.border_subtitle = "  ".join(fact for fact in facts if fact)

    @on(RowList.Resized)
    def _resized(self, event: RowList.Resized) -> None:
        event.stop()
        self.show_presets()
        self._show_runs()

    async def action_list_filter(self) -> None:
        """Type words that the lists have to contain."""
        if not self.query(FilterLine):
            await self.mount(FilterLine(placeholder="filter, esc clears"), before=0)
        self.query_one(FilterLine).open_filter()

    def action_clear_filter(self) -> None:
        """Show everything again."""
        for filter_line in self.query(FilterLine):
            filter_line.clear_filter()

    @on(FilterLine.Changed)
    def _filter(self, event: FilterLine.Changed) -> None:
        event.stop()
        self._words = event.value
        self.show_presets()
        self._show_runs()

    @on(FilterLine.Closed)
    def _leave_filter(self) -> None:
        self.presets.focus()

    @on(RowList.Clicked)
    async def action_list_open(self) -> None:
        """Configure the preset or look at the run."""
        if self.runs.has_focus and self.runs.cursor_key:
            await self._handlers.open(self.runs.cursor_key)
        elif self.presets.cursor_key:
            await self._handlers.configure()

    def action_list_mark(self) -> None:
        """Put the run into the comparison, or take it out."""
        if self.runs.cursor_key:
            self._handlers.toggle_mark(self.runs.cursor_key)

    async def action_run_resume(self) -> None:
        """Go on with the run under the cursor."""
        if self.runs.cursor_key:
            await self._handlers.resume(self.runs.cursor_key)

    def action_list_other(self) -> None:
        """Change between presets and runs."""
        self.screen.set_focus(self.presets if self.runs.has_focus else self.runs)
