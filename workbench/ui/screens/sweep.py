"""Sweeps from the current experiment: the question, and the screen that grows."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from ipu_runtime.reports.document import BAD, MUTED
from workbench.editing.draft import Draft
from workbench.services.refused import Refused
from workbench.services.sweeps import ChosenPoint, Sweep, read_grid
from workbench.store_json import RecordError
from workbench.sweeps.sweep_point import PLAN_METRICS, ranked
from workbench.sweeps.sweep_record import stored_sweep
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.dialogs.question import AskText
from workbench.ui.handlers import Handlers
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.ui.widgets.run_messages import Newest
from workbench.views.content import app_style, line, lines, listed, section_rows
from workbench.views.sweep import (
    map_section,
    points_table,
    sorted_points,
    sweep_columns,
)

_MOST_WHILE_GROWING = 500
"""Rows that are drawn again and again; all of them when the sweep is done."""


class AskGrid(AskText):
    """Asks for fields and values, as `sweep --grid` takes them."""

    def __init__(self, draft: Draft) -> None:
        size = draft.value("data.batch_size")
        proposal = f"data.batch_size={size // 2 or 1},{size},{size * 2}"
        super().__init__(
            "Sweep: fields and their values, separated by spaces",
            proposal,
            "plans every combination; begin with the word train to train them",
        )

    def check(self, text: str) -> str:
        """Return the first problem of the grid."""
        try:
            read_grid(text)
        except Refused as refused:
            return str(refused.problems[0])
        return ""


def sweep_words(group: str) -> str:
    """Return what a former sweep went through."""
    try:
        definition, results = stored_sweep(group)
    except RecordError:
        return "cannot be read"
    fields = " x ".join(axis.path.rpartition(".")[2] for axis in definition.axes)
    how = "trained" if definition.trained else "planned"
    return f"{len(results):,} points {how}, {fields}"


class SweepScreen(SteadySize, ModalScreen[ChosenPoint | None]):
    """Points as they come, best first; enter loads one, esc stops and closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.SWEEP),
        Binding("escape", "close", "Stop and close", show=False),
    ]

    class Grew(Newest):
        """Points have come, or the sweep is over."""

    def __init__(self, handlers: Handlers, sweep: Sweep) -> None:
        super().__init__()
        self._handlers, self._sweep = handlers, sweep
        self._definition = sweep.definition
        self._columns = sweep_columns(sweep.definition)
        self._sorted_by, self._reverse = len(sweep.definition.axes), False
        # From the thread of the sweep: posting is safe there.
        sweep.grew.connect(lambda _: self.post_message(self.Grew()))

    def compose(self) -> ComposeResult:
        """Build table and map."""
        with Vertical(classes="box full-box") as box:
            box.border_title = f"Sweep of {self._definition.preset}"
            box.border_subtitle = "enter loads   ←→ sort   v reverse   esc closes"
            yield Static(id="sweep-state")
            yield Static(id="sweep-heading")
            yield RowList(id="sweep-table")
            yield FlowText(id="sweep-map")

    def on_mount(self) -> None:
        """Begin, unless everything is there."""
        self.query_one("#sweep-table", RowList).focus()
        if not self._sweep.former:
            self._go_through()
        self.show_results()

    def _go_through(self) -> None:
        self._sweep.go_through(
            lambda work, group: self.run_worker(
                work, group=group, exit_on_error=False, thread=True
            )
        )

    @on(Grew)
    @on(RowList.Resized)
    def _resized(self) -> None:
        self.show_results()

    @property
    def _metric(self) -> str:
        return "loss_last" if self._definition.trained else PLAN_METRICS[0]

    def show_results(self) -> None:
        """Show what has come so far."""
        sweep, results = self._sweep, list(self._sweep.results)
        table = self.query_one("#sweep-table", RowList)
        width = table.scrollable_content_region.width
        wrong = sum(bool(result.problem) for result in results)
        note = f"   {len(results):,} of {sweep.total:,} points, {wrong:,} cannot run"
        more = "   r goes on with it" if sweep.left else ""
        self.query_one("#sweep-state", Static).update(
            line(sweep.state, (note + more, MUTED))
        )
        column = self._columns[self._sorted_by]
        best = next(iter(ranked(results, self._metric)), None)
        points = sorted_points(results, column, self._reverse)
        if sweep.working:
            points = points[:_MOST_WHILE_GROWING]
        titles = [item.title for item in self._columns]
        titles[self._sorted_by] += "▲" if self._reverse else "▼"
        listing = points_table(points, self._columns, best, titles)
        head, rows = listed(listing, width)
        self.query_one("#sweep-heading", Static).update(head)
        empty = [Row(line(("the first point comes in a moment", MUTED)))]
        # The cursor stays on the best point until it is moved.
        on_top = table.cursor_key in table.keys[:1]
        table.set_rows([Row(content, key) for key, content in rows] or empty)
        if on_top and table.keys:
            table.cursor_key = table.keys[0]
        mapped = column if column.show else self._columns[len(self._definition.axes)]
        self.query_one("#sweep-map", FlowText).show(
            lambda width: lines(
                *section_rows(
                    map_section(results, self._definition, mapped), app_style(width)
                )
            )
        )

    def _sort(self, by: int, reverse: bool) -> None:
        self._sorted_by, self._reverse = by % len(self._columns), reverse
        self.show_results()

    def action_sweep_sort_left(self) -> None:
        """Sort by the column before."""
        self._sort(self._sorted_by - 1, False)

    def action_sweep_sort_right(self) -> None:
        """Sort by the next column."""
        self._sort(self._sorted_by + 1, False)

    def action_sweep_reverse(self) -> None:
        """Turn the order round."""
        self._sort(self._sorted_by, not self._reverse)

    @work(exclusive=True, group="question")
    async def action_sweep_go_on(self) -> None:
        """Do what is left of a former sweep."""
        if not self._sweep.left:
            return
        try:
            await self._handlers.trusting(self._sweep.check, slow=True)
        except Refused as refused:
            self._sweep.state = f"cannot go on: {refused}"
            self.show_results()
        else:
            self._go_through()

    @on(RowList.Clicked)
    @work
    async def action_sweep_load(self) -> None:
        """Load the point under the cursor into the form."""
        key = self.query_one("#sweep-table", RowList).cursor_key
        found = (item for item in self._sweep.results if str(item.index) == key)
        result = next(found, None)
        if result is None:
            return
        try:
            point = await asyncio.to_thread(self._sweep.point, result)
        except Refused as refused:
            text = f"it cannot be loaded: {refused}"
            self.query_one("#sweep-state", Static).update(line((text, BAD)))
            return
        self._sweep.stop()
        self.dismiss(point)

    def action_close(self) -> None:
        """Stop and go back."""
        self._sweep.stop()
        self.dismiss(None)
