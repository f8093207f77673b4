"""Runs an experiment: record, backend, and what becomes of errors."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.system.garbage import rarely_collected
from workbench.backends import backend_of
from workbench.data.dataset_facts import DatasetError
from workbench.error_line import telling_line
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.instances.instance_run import train_on_instances
from workbench.instances.local_instances import start_here
from workbench.instances.starting import InstanceStarter
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import (
    Compiling,
    EpochEnded,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_context import (
    Backend,
    InstanceFailure,
    NoMachines,
    RunContext,
    RunControl,
)
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run
from workbench.runs.run_summary import noted, summary_of
from workbench.store_files import open_to_append
from workbench.store_json import RecordError

Emit = Callable[[Event], None]


class NonfiniteLossError(ArithmeticError):
    """The loss is not a number any more, and the experiment says to fail then."""


UNWRITTEN = "unwritten"
"""In the summary of a run that failed because its record could not be written."""
NO_MACHINES = "no_machines"
"""In the summary of a run that failed because no machine had room for it."""
_EXPLAINED = (DatasetError, RecordError, NonfiniteLossError, InstanceFailure)
"""Errors whose text says it all."""


def run_experiment(
    spec: ExperimentSpec,
    control: RunControl,
    emit: Emit,
    *,
    preset: str = "",
    resume: str | None = None,
    seed: int | None = None,
    group: str = "",
    plan: Plan | None = None,
    start: InstanceStarter | None = None,
) -> RunStatus:
    """Run an experiment to its end and return how it ended.

    Events go to `emit` in the calling thread, after they are in the record. A run that
    fails ends with `RunEnded`; only a record that cannot be begun raises. The plan is
    made here unless whoever starts the run has it already. Who gives `start` begins all
    processes of the run; otherwise one is this process, and several are this machine's.
    """
    if seed is not None:
        spec = replace(spec, experiment=replace(spec.experiment, seed=seed))
    tables = spec_to_tables(spec)
    if resume is None:
        record = RunRecord.create(tables, preset, group)
        checkpoint, first_epoch = None, 1
        run = _Run(spec, record, emit)
    else:
        stored = open_run(resume)
        record = stored.reopen()
        checkpoint, first_epoch = _go_on(record)
        run = _Run(spec, record, emit, summary_of(stored.events()), stored.seconds())
    started = RunStarted(record.run_id, preset, tables)
    with rarely_collected():
        return run.execute(started, control, plan, first_epoch, checkpoint, start)


def _go_on(record: RunRecord) -> tuple[Path | None, int]:
    """Find what to go on from, and let the record say so."""
    # Late, because checkpoints load NumPy and most callers never resume.
    from workbench.runs.run_checkpoint import latest, place_of

    path = latest(record.checkpoints)
    first_epoch, step = place_of(path)
    record.resumed(first_epoch, step)
    return path, first_epoch


class _Run:
    """One run: passes events on, remembers what the summary needs."""

    def __init__(
        self,
        spec: ExperimentSpec,
        record: RunRecord,
        emit: Emit,
        summary: Mapping[str, Any] | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._spec, self._record, self._emit = spec, record, emit
        self._began_s = time.perf_counter() - seconds
        self._summary = dict(summary or {})

    def send(self, event: Event) -> None:
        """Store an event, pass it on, and fail on a loss that is not a number."""
        self._record.append(event)
        self._emit(event)
        self._summary |= noted(event)
        if (
            isinstance(event, Progressed | EpochEnded)
            and not math.isfinite(event.loss)
            and self._spec.train.on_nonfinite == "fail"
        ):
            raise NonfiniteLossError(
                f"the loss is {event.loss} {_place(event)}; try a smaller "
                "train.learning_rate, or train.on_nonfinite = continue"
            )

    def execute(
        self,
        started: RunStarted,
        control: RunControl,
        plan: Plan | None,
        first_epoch: int,
        checkpoint: Path | None,
        start: InstanceStarter | None,
    ) -> RunStatus:
        """Let the backend work; whatever it raises ends the run as failed."""
        status, message = RunStatus.FINISHED, ""
        directory = self._record.directory
        try:
            self.send(started)
            plan = plan or plan_experiment(self._spec)
            self._record.write_plan(plan_to_json(plan))
            if start is None and self._spec.execution.instances == 1:
                self.send(Compiling("loading TensorFlow"))
            context = RunContext(
                self.send, control, directory, plan, first_epoch, checkpoint
            )
            self._backend(start)(self._spec, context)
            if control.stop.is_set():
                status = RunStatus.STOPPED
        except KeyboardInterrupt:
            status, message = RunStatus.STOPPED, "interrupted"
        except Exception as error:
            status, message = RunStatus.FAILED, describe_error(error)
            self._note(error)
            self._log(error)
        return self._end(status, message)

    def _backend(self, start: InstanceStarter | None) -> Backend:
        if start is not None or self._spec.execution.instances > 1:
            return partial(train_on_instances, start=start or start_here)
        return backend_of(self._spec.execution.api)

    def _end(self, status: RunStatus, message: str) -> RunStatus:
        self._summary["seconds"] = round(time.perf_counter() - self._began_s, 3)
        try:
            self._record.append(RunEnded(status, message, dict(self._summary)))
        except RecordError as error:
            self._note(error)
            status, message = RunStatus.FAILED, message or str(error)
        try:
            self._record.finish(status, message, self._summary)
        except RecordError as error:
            # The record cannot take it any more, but whoever watches must know.
            self._note(error)
            status, message = RunStatus.FAILED, message or str(error)
        self._emit(RunEnded(status, message, dict(self._summary)))
        return status

    def _note(self, error: Exception) -> None:
        """Tell apart what is wrong with disk or machines, and what with the run."""
        about_record = str(self._record.directory) in str(error)
        if isinstance(error, RecordError) and about_record:
            self._summary[UNWRITTEN] = True
        if isinstance(error, NoMachines):
            self._summary[NO_MACHINES] = True

    def _log(self, error: BaseException) -> None:
        try:
            # Names of files that are not UTF-8 are shown as Python shows them.
            text = "".join(traceback.format_exception(error))
            with open_to_append(self._record.log) as log:
                log.write(text.encode(errors="backslashreplace"))
        except OSError as reason:
            self._summary["log"] = f"run.log cannot be written: {reason.strerror}"


def _place(event: Progressed | EpochEnded) -> str:
    if isinstance(event, Progressed):
        return f"at step {event.step} of {event.steps} in epoch {event.epoch}"
    return f"in epoch {event.epoch}"


def describe_error(error: BaseException) -> str:
    """Return an error as one line that a user can act on."""
    if isinstance(error, _EXPLAINED):
        return str(error)
    return f"{type(error).__name__}: {telling_line(error)}"
