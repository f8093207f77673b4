"""Sweeps from the current experiment: the question, and the table that grows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from workbench.core.draft import Draft
from workbench.core.quantities import count, microseconds, share
from workbench.core.record_files import RecordError
from workbench.core.run_context import RunControl
from workbench.core.sweep import ranked, run_sweep
from workbench.core.sweep_grid import Axis, count_points, parse_grid
from workbench.core.sweep_point import PointResult
from workbench.core.sweep_record import SweepDefinition, SweepRecord
from workbench.ui.content.pieces import BAD, GOOD, MUTED, fit, line
from workbench.ui.screens.question import AskText
from workbench.ui.widgets.row_list import Row, RowList

_TRAIN = "train"


@dataclass(frozen=True, slots=True)
class Grid:
    """What to go through, and whether to train or only to plan."""

    axes: tuple[Axis, ...]
    trained: bool


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


class SweepScreen(ModalScreen[None]):
    """Results as they come, best first; esc stops and closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,s", "close", "Stop and close", show=False)
    ]

    def __init__(self, draft: Draft, text: str) -> None:
        super().__init__()
        grid = read_grid(text)
        if isinstance(grid, str):
            raise ValueError(grid)
        self._grid = grid
        self._tables, self._preset = draft.tables, draft.preset.name
        self._control = RunControl()
        self._results: list[PointResult] = []
        self._state = "starting"

    def compose(self) -> ComposeResult:
        """Build the table."""
        with Vertical(classes="box wide-box") as box:
            box.border_title = f"Sweep of {self._preset}"
            box.border_subtitle = "esc stops and closes; results are kept"
            yield Static(id="sweep-state")
            yield Static(_heading(self._grid))
            yield RowList(id="sweep-table")

    def on_mount(self) -> None:
        """Begin."""
        self.query_one("#sweep-table", RowList).focus()
        self.set_interval(0.2, self.show_results)
        self.sweep()

    @work(thread=True, group="sweep", exit_on_error=False)
    def sweep(self) -> None:
        """Go through the points; runs outside the screen's thread."""
        definition = SweepDefinition(
            self._preset, self._tables, self._grid.axes, self._grid.trained
        )
        try:
            record = SweepRecord.create(definition)
        except RecordError as error:
            self._state = f"cannot begin: {error}"
            return
        self._state = "training" if self._grid.trained else "planning"
        try:
            for result in run_sweep(record, self._control, jobs=1):
                self._results.append(result)
            stopped = self._control.stop.is_set()
            self._state = f"{'stopped' if stopped else 'done'}: {record.group}"
        except RecordError as error:
            self._state = f"broke off: {error}"
        finally:
            record.close()

    def show_results(self) -> None:
        """Show what has come so far."""
        results = list(self._results)
        total = count_points(self._grid.axes)
        self.query_one("#sweep-state", Static).update(
            line(self._state, (f"   {len(results)} of {total} points", MUTED))
        )
        table = self.query_one("#sweep-table", RowList)
        metric = "accuracy_last" if self._grid.trained else "ipu_us_per_batch"
        order = ranked(results, metric)
        rest = [result for result in results if result not in order]
        rows = [
            Row(_line(result, self._grid, place == 0), str(result.index))
            for place, result in enumerate([*order, *rest])
        ]
        table.set_rows(
            rows or [Row(line(("the first point comes in a moment", MUTED)))]
        )

    def action_close(self) -> None:
        """Stop and go back."""
        self._control.stop.set()
        self.dismiss()


_PLANNED = (
    ("per batch", "ipu_us_per_batch", microseconds),
    ("samples/s", "samples_per_second", count),
    ("bubble", "bubble_fraction", share),
    ("memory", "memory_fraction", share),
)
_TRAINED = (
    ("loss", "loss_last", lambda value: f"{value:.4f}"),
    ("accuracy", "accuracy_last", lambda value: f"{value:.4f}"),
    ("modelled", "ipu_step_us", microseconds),
    ("seconds", "seconds", lambda value: f"{value:.1f} s"),
)


def _heading(grid: Grid) -> Content:
    names = "".join(fit(axis.path.rpartition(".")[2], 18) for axis in grid.axes)
    columns = _TRAINED if grid.trained else _PLANNED
    metrics = "".join(f"{title:>11}" for title, _, _ in columns)
    return line((names + metrics, MUTED))


def _line(result: PointResult, grid: Grid, best: bool) -> Content:
    values = "".join(fit(str(result.values[axis.path]), 18) for axis in grid.axes)
    if result.problem:
        return line(values, (f" {result.problem}", BAD))
    columns = _TRAINED if grid.trained else _PLANNED
    cells = "".join(
        f"{show(result.metrics[key]) if key in result.metrics else '-':>11}"
        for _, key, show in columns
    )
    return line(values, cells, ("  best", GOOD) if best else "")
