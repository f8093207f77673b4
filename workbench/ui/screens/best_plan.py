"""The best settings for a goal: searched while one watches, taken with enter."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from ipu_runtime.plan.hardware import find_system
from ipu_runtime.plan.quantities import change, count, plural
from ipu_runtime.reports.document import MUTED, WARN
from workbench.data.sample_counts import count as count_samples
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.locations import hardware_file
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.outcome import Outcome, optimize
from workbench.optimizing.search import Search
from workbench.optimizing.search_space import SearchSpace
from workbench.planning.same_training import training_changes, update_samples
from workbench.planning.staged_spec import changed_values
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.ui.widgets.run_messages import Newest
from workbench.views.content import line, lines, listed
from workbench.views.outcome import (
    certainty,
    extras,
    outcome_table,
    remedy,
    update_words,
)

_EVERY_S = 0.2
_KEYS = "enter uses it, o another goal, g any update or the same, esc closes"


class BestPlanScreen(SteadySize, ModalScreen[dict[str, Any] | None]):
    """Searches in a thread; enter gives the values of the row under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.BEST),
        Binding("escape,B", "cancel", "Close", show=False),
    ]

    class Progressed(Newest):
        """The search has come further."""

    def __init__(self, spec: ExperimentSpec, samples_per_second: float) -> None:
        super().__init__()
        self._spec = spec
        self._now = samples_per_second
        self._goals = list(Goal)
        self._any_update = False
        self.outcome: Outcome | None = None
        """What the last search came to, once it has ended."""
        self._search: Search | None = None
        self._asked = 0
        """Searches so far: an older one ends when there is a newer."""

    def compose(self) -> ComposeResult:
        """Build table and notes."""
        with Vertical(classes="box wide-box") as box:
            box.border_title = "Best plan (modelled)"
            yield Static(id="best-state")
            yield Static(id="best-heading")
            yield RowList(id="best-rows")
            yield Static(id="best-note")

    def on_mount(self) -> None:
        """Begin to search, and show how far it is."""
        self.query_one(RowList).styles.height = 8
        self.query_one(RowList).focus()
        self._begin()

    def on_unmount(self) -> None:
        """Let the search end."""
        self._asked += 1

    def _begin(self) -> None:
        self._asked += 1
        self.outcome, self._search = None, None
        self._show()
        self._run_search(self._asked)

    @work(thread=True, group="best", exit_on_error=False)
    def _run_search(self, number: int) -> None:
        spec = self._spec
        system = find_system(spec.execution.system, hardware_file())
        kept = 0 if self._any_update else update_samples(spec)
        samples = count_samples(spec).train.samples * spec.train.epochs
        space = SearchSpace(spec, system.ipus if system else 1, kept)

        told_s = time.monotonic()

        def tell(search: Search) -> bool:
            nonlocal told_s
            self._search = search
            if time.monotonic() - told_s > _EVERY_S:
                told_s = time.monotonic()
                self.post_message(self.Progressed())
            return number == self._asked

        outcome = optimize(space, Aim(self._goals[0], samples), tell)
        if number == self._asked:
            self.outcome = outcome
            self.app.call_from_thread(self._show)

    @on(Progressed)
    def _show_progress(self) -> None:
        if self.outcome is None:
            self.query_one("#best-state", Static).update(self._state())

    def _show(self) -> None:
        self.query_one("#best-state", Static).update(self._state())
        table, note = self.query_one(RowList), self.query_one("#best-note", Static)
        outcome = self.outcome
        if outcome is None or not outcome.best:
            text = "searching" if outcome is None else "nothing fits"
            table.set_rows([Row(line((text, MUTED)))])
            note.update(line(remedy(outcome) if outcome else ""))
            return
        self._show_rows()
        table.cursor_key = "0"
        self._describe("0")

    @on(RowList.Resized)
    def _show_rows(self) -> None:
        if self.outcome is None or not self.outcome.best:
            return
        table = self.query_one(RowList)
        width = table.scrollable_content_region.width
        head, rows = listed(outcome_table(self.outcome), width)
        self.query_one("#best-heading", Static).update(head)
        table.set_rows([Row(content, key) for key, content in rows])

    @on(RowList.Highlighted)
    def _moved(self, event: RowList.Highlighted) -> None:
        self._describe(event.key)

    def _describe(self, row: str) -> None:
        """Say what else a row has, why it is as it is, and how sure that is."""
        outcome = self.outcome
        if outcome is None or not row:
            return
        found = outcome.best[int(row)]
        also = extras(found) or "nothing else"
        changed = training_changes(self._spec, found.spec)
        open_ = "   within the error of row 1" if int(row) in outcome.undecided else ""
        self.query_one("#best-note", Static).update(
            lines(
                line(("also: ", MUTED), also, (open_, WARN)),
                *(line((text, WARN)) for text in changed),
                line((outcome.decides[int(row)], MUTED)),
                line((certainty(outcome), MUTED if outcome.proven else WARN)),
                line((_KEYS, MUTED)),
            )
        )

    def _state(self) -> Content:
        kept = 0 if self._any_update else update_samples(self._spec)
        parts = f"{self._goals[0].value}, {update_words(kept)}"
        outcome = self.outcome
        if outcome is not None:
            tried = plural(outcome.tried, "setting")
            gain = ""
            if outcome.best:
                best = outcome.best[0].plan.samples_per_second
                gain = f", {change(best, self._now)} samples/s"
            return line(parts, (f"   {tried} tried{gain}", MUTED))
        search = self._search
        if search is None:
            return line(parts, ("   searching", MUTED))
        found = "nothing fits"
        if search.best is not None:
            found = f"{count(search.best.plan.samples_per_second)} samples/s"
        return line(parts, (f"   {search.tried} tried, {found} so far", MUTED))

    @on(RowList.Clicked)
    def action_best_use(self) -> None:
        """Set what the row under the cursor has."""
        if self.outcome is not None and self.outcome.best:
            found = self.outcome.best[int(self.query_one(RowList).cursor_key)]
            self.dismiss(changed_values(self._spec, found.spec))

    def action_best_goal(self) -> None:
        """Search for the next goal."""
        self._goals = [*self._goals[1:], self._goals[0]]
        self._begin()

    def action_best_batch(self) -> None:
        """Let weight updates have any number of samples, or keep what they have."""
        self._any_update = not self._any_update
        self._begin()

    def action_cancel(self) -> None:
        """Leave the experiment as it is."""
        self.dismiss(None)
