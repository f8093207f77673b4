"""Sweeps from the current experiment: the question, and the screen that grows."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from ipu_runtime.reports.document import BAD, MUTED
from workbench.editing.draft import Draft
from workbench.experiment.experiment_loading import read_and_checked
from workbench.runs.record_files import RecordError
from workbench.runs.run_context import RunControl
from workbench.sweeps.sweep import run_sweep
from workbench.sweeps.sweep_grid import Axis, Point, count_points, parse_grid
from workbench.sweeps.sweep_point import (
    PLAN_METRICS,
    PointResult,
    experiment_at,
    ranked,
)
from workbench.sweeps.sweep_record import (
    SweepDefinition,
    SweepRecord,
    stored_sweep,
)
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.controllers.trusting import trusts_sources
from workbench.ui.screens.question import AskText, Confirm
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.views.content import app_style, line, lines, listed, section_rows
from workbench.views.sweep import (
    map_section,
    points_table,
    sorted_points,
    sweep_columns,
)

_TRAIN = "train"
_MOST_WHILE_GROWING = 500
"""Rows that are drawn again and again; all of them when the sweep is done."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What to go through, and whether to train or only to plan."""

    axes: tuple[Axis, ...]
    trained: bool


@dataclass(frozen=True, slots=True)
class ChosenPoint:
    """A point that is to be loaded into the form."""

    preset: str
    tables: Mapping[str, Any]
    words: str


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
        grid = read_grid(text)
        return "" if isinstance(grid, Grid) else grid


def read_grid(text: str) -> Grid | str:
    """Return the grid of a text, or what is wrong with it."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return str(error)
    trained = words[:1] == [_TRAIN]
    axes, problems = parse_grid(words[1:] if trained else words)
    return str(problems[0]) if problems else Grid(axes, trained)


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

    def __init__(
        self,
        definition: SweepDefinition,
        opened: Callable[[], SweepRecord],
        results: list[PointResult] | None = None,
        group: str = "",
    ) -> None:
        super().__init__()
        self._definition, self._open = definition, opened
        self._columns = sweep_columns(definition)
        self._control = RunControl()
        self._results: list[PointResult] = results or []
        self._kept = results is not None
        self._total = count_points(definition.axes)
        self._state = f"kept: {group}" if self._kept else "starting"
        self._working = False
        self._sorted_by, self._reverse = len(definition.axes), False
        self._shown: object = None

    @classmethod
    def of_grid(cls, draft: Draft, text: str) -> SweepScreen:
        """Begin the sweep of a text that `AskGrid` has let through."""
        grid = read_grid(text)
        if isinstance(grid, str):
            raise ValueError(grid)
        definition = SweepDefinition(
            draft.preset.name, draft.tables, grid.axes, grid.trained
        )
        return cls(definition, lambda: SweepRecord.create(definition))

    @classmethod
    def of_group(cls, group: str) -> SweepScreen:
        """Show what a former sweep has left."""
        definition, results = stored_sweep(group)
        return cls(definition, lambda: SweepRecord.reopen(group), results, group)

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
        self.set_interval(0.2, self.show_results)
        if not self._kept:
            self.sweep()
        self.show_results()

    @work(thread=True, group="sweep", exit_on_error=False)
    def sweep(self) -> None:
        """Go through the points; runs outside the screen's thread."""
        try:
            record = self._open()
        except RecordError as error:
            self._state = f"cannot begin: {error}"
            return
        self._working = True
        self._state = "training" if self._definition.trained else "planning"
        try:
            for result in run_sweep(record, self._control, jobs=1):
                self._results.append(result)
            stopped = self._control.stop.is_set()
            self._state = f"{'stopped' if stopped else 'done'}: {record.group}"
        except RecordError as error:
            self._state = f"broke off: {error}"
        finally:
            self._working = False
            record.close()

    @on(RowList.Resized)
    def _resized(self) -> None:
        self.show_results()

    @property
    def _metric(self) -> str:
        return "loss_last" if self._definition.trained else PLAN_METRICS[0]

    def show_results(self) -> None:
        """Show what has come so far, if that is more or in another order."""
        results = list(self._results)
        table = self.query_one("#sweep-table", RowList)
        width = table.scrollable_content_region.width
        shown = len(results), self._state, self._sorted_by, self._reverse, width
        if shown == self._shown:
            return
        self._shown = shown
        wrong = sum(bool(result.problem) for result in results)
        note = f"   {len(results):,} of {self._total:,} points, {wrong:,} cannot run"
        left = not self._working and self._kept and len(results) < self._total
        more = "   r goes on with it" if left else ""
        self.query_one("#sweep-state", Static).update(
            line(self._state, (note + more, MUTED))
        )
        column = self._columns[self._sorted_by]
        best = next(iter(ranked(results, self._metric)), None)
        points = sorted_points(results, column, self._reverse)
        if self._working:
            points = points[:_MOST_WHILE_GROWING]
        titles = [item.title for item in self._columns]
        titles[self._sorted_by] += "▲" if self._reverse else "▼"
        listing = points_table(points, self._columns, best, titles)
        head, rows = listed(listing, width)
        self.query_one("#sweep-heading", Static).update(head)
        empty = [Row(line(("the first point comes in a moment", MUTED)))]
        table.set_rows([Row(content, key) for key, content in rows] or empty)
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
        if not self._kept or self._working or len(self._results) >= self._total:
            return
        tables = self._definition.tables
        if not await trusts_sources(self, "the sweep", tables):
            return
        # Asked here, or every point that is left would be one that cannot run.
        spec, problems = await asyncio.to_thread(read_and_checked, tables)
        if spec is None:
            self._state = f"cannot go on: {problems[0]}"
        else:
            self.sweep()

    async def confirm(self, question: str, yes: str, no: str) -> bool:
        """Ask before code runs that is not trusted yet."""
        return await self.app.push_screen_wait(Confirm(question, yes, no))

    @on(RowList.Clicked)
    @work
    async def action_sweep_load(self) -> None:
        """Load the point under the cursor into the form."""
        key = self.query_one("#sweep-table", RowList).cursor_key
        result = next((item for item in self._results if str(item.index) == key), None)
        if result is None:
            return
        point = Point(result.index, result.values)
        found = await asyncio.to_thread(experiment_at, self._definition.tables, point)
        if found.spec is None:
            text = f"it cannot be loaded: {result.problem or 'it is not valid'}"
            self.query_one("#sweep-state", Static).update(line((text, BAD)))
            return
        words = ", ".join(f"{path}={value}" for path, value in result.values.items())
        self._control.stop.set()
        self.dismiss(ChosenPoint(self._definition.preset, found.tables, words))

    def action_close(self) -> None:
        """Stop and go back."""
        self._control.stop.set()
        self.dismiss(None)
