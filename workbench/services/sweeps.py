"""Sweeps from an experiment: read a grid, go through it in a thread, go on later."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ipu_runtime.plan.problem import Severity
from workbench.editing.draft import Draft
from workbench.runs.run_context import RunControl
from workbench.services.refused import Refused
from workbench.services.signal import Signal
from workbench.services.started_run import Spawn
from workbench.services.trust import check_sources
from workbench.store_json import RecordError
from workbench.sweeps.sweep import run_sweep
from workbench.sweeps.sweep_grid import Axis, Point, count_points, parse_grid
from workbench.sweeps.sweep_point import PointResult, experiment_at
from workbench.sweeps.sweep_record import SweepDefinition, SweepRecord, stored_sweep

_TRAIN = "train"


@dataclass(frozen=True, slots=True)
class Grid:
    """What to go through, and whether to train or only to plan."""

    axes: tuple[Axis, ...]
    trained: bool


def read_grid(text: str) -> Grid:
    """Return the grid of a text, as `sweep --grid` takes it; the word train trains."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Refused(str(error)) from error
    trained = words[:1] == [_TRAIN]
    axes, problems = parse_grid(words[1:] if trained else words)
    if problems:
        raise Refused.for_problems(problems)
    return Grid(axes, trained)


@dataclass(frozen=True, slots=True)
class ChosenPoint:
    """A point that is to be loaded into the form."""

    preset: str
    tables: Mapping[str, Any]
    words: str


class Sweep:
    """A sweep that this process goes through, or that was made before.

    `grew` is emitted by the thread that goes through the points, after each of them.
    """

    def __init__(
        self,
        definition: SweepDefinition,
        opened: Callable[[], SweepRecord],
        results: list[PointResult] | None = None,
        group: str = "",
    ) -> None:
        self.definition, self._open = definition, opened
        self.former = results is not None
        """Whether it was begun before."""
        self.results: list[PointResult] = results or []
        self.total = count_points(definition.axes)
        self.state = f"kept: {group}" if self.former else "starting"
        """What goes on right now, in words."""
        self.working = False
        self.grew: Signal[Sweep] = Signal()
        self._control = RunControl()

    @classmethod
    def of_grid(cls, draft: Draft, grid: Grid) -> Sweep:
        """Return a new sweep from an experiment."""
        definition = SweepDefinition(
            draft.preset.name, draft.tables, grid.axes, grid.trained
        )
        return cls(definition, lambda: SweepRecord.create(definition))

    @classmethod
    def of_group(cls, group: str) -> Sweep:
        """Return what a former sweep has left."""
        definition, results = stored_sweep(group)
        return cls(definition, lambda: SweepRecord.reopen(group), results, group)

    @property
    def left(self) -> bool:
        """Whether points are left that nobody works on."""
        return self.former and not self.working and len(self.results) < self.total

    def check(self) -> None:
        """Refuse to go on if every point that is left would be one that cannot run.

        It may be called on any thread: sources are read again if need be.
        """
        check_rest(self.definition)

    def go_through(self, spawn: Spawn) -> None:
        """Do what is left, in a thread."""
        spawn(self._work, "sweep")

    def _work(self) -> None:
        try:
            record = self._open()
        except RecordError as error:
            self._tell(f"cannot begin: {error}")
            return
        self.working = True
        self._tell("training" if self.definition.trained else "planning")
        end = f"done: {record.group}"
        try:
            for result in run_sweep(record, self._control, jobs=1):
                self.results.append(result)
                self.grew.emit(self)
            if self._control.stop.is_set():
                end = f"stopped: {record.group}"
        except RecordError as error:
            end = f"broke off: {error}"
        finally:
            record.close()
            self.working = False
            self._tell(end)

    def _tell(self, state: str) -> None:
        self.state = state
        self.grew.emit(self)

    def stop(self) -> None:
        """Stop after the point that is worked on."""
        self._control.stop.set()

    def point(self, result: PointResult) -> ChosenPoint:
        """Return the experiment of a point; it may be called on any thread."""
        found = experiment_at(
            self.definition.tables, Point(result.index, result.values)
        )
        if found.spec is None:
            raise Refused(result.problem or "it is not valid")
        words = ", ".join(f"{path}={value}" for path, value in result.values.items())
        return ChosenPoint(self.definition.preset, found.tables, words)


def check_rest(
    definition: SweepDefinition,
    *,
    trusted: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> None:
    """Refuse a sweep whose experiment cannot run any more, or may not."""
    # Late: it loads the planner, which the app's first frame does without.
    from workbench.experiment.experiment_loading import read_and_checked

    check_sources("the sweep", definition.tables, trusted)
    spec, problems = read_and_checked(definition.tables, tell, trust=trusted)
    if spec is None:
        errors = (item for item in problems if item.severity is Severity.ERROR)
        raise Refused.for_problems(errors)
