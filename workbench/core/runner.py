"""Runs an experiment: record, backend, and what becomes of errors."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.core.backends import backend_of
from workbench.core.dataset_facts import DatasetError
from workbench.core.events import (
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.garbage import rarely_collected
from workbench.core.record_files import RecordError
from workbench.core.run_context import RunContext, RunControl
from workbench.core.run_record import RunRecord
from workbench.core.run_store import open_run
from workbench.core.tables import spec_to_tables

Emit = Callable[[Event], None]


class NonfiniteLossError(ArithmeticError):
    """The loss is not a number any more, and the experiment says to fail then."""


def run_experiment(
    spec: ExperimentSpec,
    control: RunControl,
    emit: Emit,
    *,
    preset: str = "",
    resume: str | None = None,
    seed: int | None = None,
    group: str = "",
) -> RunStatus:
    """Run an experiment to its end and return how it ended.

    Events go to `emit` in the calling thread, after they are in the record. A run that
    fails ends with `RunEnded`; only a record that cannot be begun raises.
    """
    if seed is not None:
        spec = replace(spec, experiment=replace(spec.experiment, seed=seed))
    tables = spec_to_tables(spec)
    if resume is None:
        record = RunRecord.create(tables, preset, group)
        checkpoint, first_epoch = None, 1
    else:
        record = open_run(resume).reopen()
        checkpoint, first_epoch = _last_checkpoint(record)
        record.resumed(first_epoch)
    run = _Run(spec, record, emit)
    run.send(RunStarted(record.run_id, preset, tables))
    context = RunContext(run.send, control, record.directory, first_epoch, checkpoint)
    with rarely_collected():
        return run.execute(context)


def _last_checkpoint(record: RunRecord) -> tuple[Path | None, int]:
    # Late, because checkpoints load NumPy and most callers never resume.
    from workbench.core.checkpoint import first_epoch_after, latest

    path = latest(record.checkpoints)
    return path, first_epoch_after(path)


class _Run:
    """One run: passes events on, remembers what the summary needs."""

    def __init__(self, spec: ExperimentSpec, record: RunRecord, emit: Emit) -> None:
        self._spec, self._record, self._emit = spec, record, emit
        self._began_s = time.perf_counter()
        self._summary: dict[str, Any] = {}

    def send(self, event: Event) -> None:
        """Store an event, pass it on, and fail on a loss that is not a number."""
        self._record.append(event)
        self._emit(event)
        self._note(event)
        if (
            isinstance(event, Progressed | EpochEnded)
            and not math.isfinite(event.loss)
            and self._spec.train.on_nonfinite == "fail"
        ):
            raise NonfiniteLossError(
                f"the loss is {event.loss} in epoch {event.epoch}; try a smaller "
                "train.learning_rate, or train.on_nonfinite = continue"
            )

    def execute(self, context: RunContext) -> RunStatus:
        """Let the backend work; whatever it raises ends the run as failed."""
        status, message = RunStatus.FINISHED, ""
        try:
            self._write_plan()
            self.send(Compiling("loading TensorFlow"))
            backend_of(self._spec.execution.api)(self._spec, context)
            if context.control.stop.is_set():
                status = RunStatus.STOPPED
        except KeyboardInterrupt:
            status, message = RunStatus.STOPPED, "interrupted"
        except Exception as error:
            status, message = RunStatus.FAILED, describe_error(error)
            self._log(error)
        return self._end(status, message)

    def _end(self, status: RunStatus, message: str) -> RunStatus:
        self._summary["seconds"] = round(time.perf_counter() - self._began_s, 3)
        ended = RunEnded(status, message, dict(self._summary))
        try:
            self._record.append(ended)
            self._record.finish(status, message, self._summary)
        except RecordError as error:
            # The record cannot take it any more, but whoever watches must know.
            self._record.close()
            status = RunStatus.FAILED
            ended = RunEnded(status, message or str(error), dict(self._summary))
        self._emit(ended)
        return status

    def _note(self, event: Event) -> None:
        if isinstance(event, EpochEnded):
            self._summary |= {
                "epochs": event.epoch,
                "loss": event.loss,
                "accuracy": event.accuracy,
                "host_step_ms": event.host_step_ms,
                "ipu_step_us": event.ipu_step_us,
            }
        elif isinstance(event, Evaluated):
            self._summary |= {
                "test_loss": event.loss,
                "test_accuracy": event.accuracy,
            }

    def _write_plan(self) -> None:
        # Late, because whoever only shows runs needs no cost model.
        from ipu_runtime.reports.plan_json import plan_to_json
        from workbench.core.planning import plan_experiment

        self._record.write_plan(plan_to_json(plan_experiment(self._spec)))

    def _log(self, error: BaseException) -> None:
        try:
            with self._record.log.open("a", encoding="utf-8") as log:
                traceback.print_exception(error, file=log)
        except OSError as reason:
            self._summary["log"] = f"run.log cannot be written: {reason.strerror}"


def describe_error(error: BaseException) -> str:
    """Return an error as one line that a user can act on."""
    if isinstance(error, DatasetError | RecordError | NonfiniteLossError):
        return str(error)
    text = str(error).strip().partition("\n")[0] or "no further explanation"
    return f"{type(error).__name__}: {text}"
