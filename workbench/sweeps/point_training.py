"""Training the points of a sweep: each is a run of the sweep's group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.plan.plain_data import plain
from workbench.cluster.team import Team
from workbench.comparing.outcome import outcome_of
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.runs.events import (
    EpochEnded,
    Event,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_context import NoMachines, RunControl
from workbench.runs.run_store import StoredRun, list_runs, open_run
from workbench.store_json import RecordError
from workbench.sweeps.sweep_grid import Point
from workbench.sweeps.sweep_point import (
    PointExperiment,
    PointResult,
    experiment_at,
    refused,
    result_of,
)
from workbench.sweeps.sweep_workers import ATTEMPTS

_BEGUN = (RunStatus.KILLED, RunStatus.STOPPED)


@dataclass(frozen=True, slots=True)
class PointTraining:
    """How the points of one sweep are trained; called in whatever process trains."""

    base: Mapping[str, Any]
    preset: str
    group: str
    team: Team | None = None
    """Machines that train; None for this process."""
    until: int = 0
    """Epoch after which a point waits for the others; 0 for all epochs."""

    def __call__(
        self, chunk: Sequence[Point], control: RunControl
    ) -> list[PointResult]:
        """Train points; those that are stopped are left out: they are not done."""
        results = (self._trained(point, control) for point in chunk)
        return [result for result in results if result is not None]

    def _trained(self, point: Point, control: RunControl) -> PointResult | None:
        """Train a point.

        A run of the group that has ended already is taken as it is, one that was begun
        goes on: whoever should have noted it down may have been killed.
        """
        experiment = experiment_at(self.base, point)
        if experiment.spec is None:
            return refused(point, experiment.problems)
        tables = plain(spec_to_tables(experiment.spec))
        before = [run for run in list_runs(self.group) if run.tables == tables]
        run = next((run for run in before if self._is_done(run)), None)
        if run is None:
            begun = next((run.run_id for run in before if _is_begun(run)), "")
            run = self._run(experiment.spec, begun, control)
        return None if run is None else self._result(point, run, experiment)

    def _is_done(self, run: StoredRun) -> bool:
        if run.status is RunStatus.FINISHED:
            return True
        epochs = outcome_of(run).get("epochs", 0)
        return run.status in _BEGUN and 0 < self.until <= epochs

    def _run(
        self, spec: ExperimentSpec, run_id: str, control: RunControl
    ) -> StoredRun | None:
        """Run an experiment, again if the machine was lost; None if it was stopped.

        A record that cannot be written raises, and a lack of machines: the point is
        not to blame, and is left.
        """
        # The runner is only needed by those who train.
        from workbench.runs.runner import NO_MACHINES, UNWRITTEN, run_experiment

        own = RunControl() if self.until else control

        def watch(event: Event) -> None:
            nonlocal run_id
            if isinstance(event, RunStarted):
                run_id = event.run_id
            if isinstance(event, RunEnded) and event.summary.get(UNWRITTEN):
                raise RecordError(event.message)
            if isinstance(event, RunEnded) and event.summary.get(NO_MACHINES):
                raise NoMachines(event.message)
            reached = isinstance(event, EpochEnded) and event.epoch >= self.until
            if self.until and (reached or control.should_stop()):
                own.stop.set()

        attempts = 0
        while attempts < ATTEMPTS:
            team = self.team
            start = None if team is None else team.starter(control, self.until)
            status = run_experiment(
                spec,
                own,
                watch,
                preset=self.preset,
                resume=run_id or None,
                group=self.group,
                start=start,
            )
            if start is None or not start.lost:
                break
            # Who has lost all machines waits for them, as a point does that begins.
            attempts += not start.alone
        if status is RunStatus.STOPPED and control.stop.is_set():
            return None
        return open_run(run_id)

    def _result(
        self, point: Point, run: StoredRun, experiment: PointExperiment
    ) -> PointResult:
        finished = run.status is RunStatus.FINISHED
        waits = self._is_done(run) and not finished
        problem = "" if finished or waits else run.message or run.status.value
        return replace(
            result_of(point, experiment, outcome_of(run), problem),
            run_id=run.run_id,
            stopped_epoch=self.until if waits else 0,
        )


def _is_begun(run: StoredRun) -> bool:
    # Late for the same reason as where points are trained.
    from workbench.runs.runner import NO_MACHINES

    return run.status in _BEGUN or bool(run.summary.get(NO_MACHINES))
