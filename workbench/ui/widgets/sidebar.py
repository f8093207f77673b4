"""Presets and runs: what the rest of the screen is about."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from workbench.runs.run_notes import notes_text
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.controllers.experiment import ExperimentController
from workbench.ui.controllers.known_runs import RunEntry
from workbench.ui.controllers.runs import RunController
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

    def __init__(self, experiment: ExperimentController, runs: RunController) -> None:
        super().__init__(id="sidebar")
        self._experiment, self._controller = experiment, runs
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
        experiment = self._experiment
        self.presets.show_presets(
            experiment.presets, experiment.changed_presets(), self._words
        )

    def show_runs(self) -> None:
        """Show all runs that the filter lets through, if they are others now."""
        known = self._controller.known
        state = (known.entries(), list(known.marked))
        if state != self._shown:
            self._shown = state
            self._show_runs()

    def _show_runs(self) -> None:
        (entries, marked), known = self._shown, self._controller.known
        words = self._words
        if words:
            entries = [item for item in entries if known.lets_through(item, words)]
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
            await self._controller.open(self.runs.cursor_key)
        elif self.presets.cursor_key:
            await self.app.run_action("area('configure')")
            await self.app.run_action("app.preset_read")

    def action_list_mark(self) -> None:
        """Put the run into the comparison, or take it out."""
        if self.runs.cursor_key:
            self._controller.toggle_mark(self.runs.cursor_key)

    async def action_run_resume(self) -> None:
        """Go on with the run under the cursor."""
        if self.runs.cursor_key:
            await self._controller.resume(self.runs.cursor_key)

    def action_list_other(self) -> None:
        """Change between presets and runs."""
        self.screen.set_focus(self.presets if self.runs.has_focus else self.runs)
