"""The runs that wait: kept on disk, taken over from last time, named before leaving."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ipu_runtime.plan.quantities import plural
from workbench.editing.draft import check_tables
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.field_differences import changed_fields
from workbench.experiment.preset_store import PresetError, load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.locations import NoHomeError
from workbench.runs.record_files import RecordError
from workbench.runs.waiting_runs import WaitingRun, WaitingRuns
from workbench.ui.controllers.run_board import Job, RunBoard

_MOST_CHANGES, _MOST_NAMED = 3, 6
STAY, KEEP, FORGET = "n", "k", "f"
"""Answers to the question before leaving."""


class QueueView(Protocol):
    """What the queue needs of the screen."""

    def say(self, text: str, bad: bool = False) -> None: ...

    def runs_shown(self) -> None: ...

    async def confirm(self, question: str, yes: str, no: str) -> bool: ...

    async def choose(
        self, question: str, answers: Sequence[tuple[str, str]]
    ) -> str: ...


class RunQueue:
    """Keeps up with the runs of the board that have not begun."""

    def __init__(
        self, view: QueueView, board: RunBoard, job_of: Callable[[ExperimentSpec], Job]
    ) -> None:
        self._view, self._board, self._job_of = view, board, job_of
        self._kept = WaitingRuns()

    def keep(self) -> None:
        """Write which runs wait, if they are others than before."""
        waiting = [
            WaitingRun(run.monitor.preset, run.tables, run.resume)
            for run in self._board.waiting
            if "script" not in run.tables
        ]
        try:
            self._kept.keep(waiting)
        except (RecordError, NoHomeError) as error:
            self._view.say(f"the queue cannot be kept: {error}", bad=True)

    def take_over(self) -> None:
        """Show the runs that wait since the last visit; they start when asked for."""
        left = self._kept.adopt()
        for item in left:
            spec, problems = check_tables(item.tables)
            if spec is None:
                self._view.say(f"cannot queue what waited: {problems[0]}", bad=True)
                continue
            job, tables = self._job_of(spec), dict(item.tables)
            run = self._board.add(job, tables, item.preset, item.resume)
            run.held = True
            run.monitor.activity = "kept from last time: r starts it"
        if self._board.waiting:
            waits = "waits" if len(left) == 1 else "wait"
            count = plural(len(left), "run")
            self._view.say(f"{count} {waits} from last time: r in the list starts")
            self._view.runs_shown()

    def release(self) -> None:
        """Leave what waits to the next app."""
        self._kept.release()

    async def ask_to_leave(self, name: str) -> str:
        """Ask what becomes of the live run, and of those that wait for it."""
        waiting = [run for run in self._board.waiting if not run.held]
        if not waiting:
            question = f"{name} is running. Stop it, keep its record, leave?"
            leaves = await self._view.confirm(question, "stop and leave", "stay")
            return KEEP if leaves else STAY
        rows = [
            run_title(run.monitor.preset, run.tables)
            + (", a script: cannot be kept" if "script" in run.tables else "")
            for run in waiting
        ]
        if len(rows) > _MOST_NAMED:
            rows[_MOST_NAMED:] = [f"and {len(rows) - _MOST_NAMED} more"]
        waits = "waits" if len(waiting) == 1 else "wait"
        head = f"{name} is running, and {plural(len(waiting), 'run')} {waits}:"
        return await self._view.choose(
            "\n  ".join([head, *rows]),
            (
                (STAY, "stay"),
                (KEEP, "stop and leave, keep what waits for next time"),
                (FORGET, "stop and leave, forget what waits"),
            ),
        )


def run_title(preset: str, tables: Mapping[str, Any]) -> str:
    """Return what tells a run from others: its preset and what is changed."""
    try:
        spec, _ = check_tables(load_preset(preset).tables)
    except PresetError:
        return preset
    changes = changed_fields(tables, spec_to_tables(spec)) if spec else ()
    named = [f"{item.path} {item.values[0]}" for item in changes[:_MOST_CHANGES]]
    return ", ".join([preset, *named])
