"""Runs without TensorFlow: scripted events, live or as records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from ipu_runtime.plan.plan import Plan
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_context import RunControl
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run

STEPS = 40


def training_events(
    epochs: int = 2,
    rate: float = 30.0,
    step_us: float = 250.0,
    replicas: int = 1,
    batch_size: int = 64,
) -> list[Event]:
    """Return the events of a training whose loss falls with the given rate.

    As the engine does, it reports means since the epoch began.
    """
    events: list[Event] = [
        Compiling("loading TensorFlow"),
        Compiled("2 stage programs", 2.1, 51.0),
    ]
    for epoch in range(1, epochs + 1):
        total = 0.0
        for step in range(4, STEPS + 1, 4):
            loss = 2.0 * math.exp(-((epoch - 1) * STEPS + step) / rate) + 0.2
            total += loss * 4
            mean = total / step
            events.append(
                Progressed(
                    *(epoch, step, STEPS, mean, 1 - mean / 2.5, 15.2, step_us),
                    replicas=replicas,
                    batch_size=batch_size,
                )
            )
        events.append(
            EpochEnded(
                *(epoch, loss, 1 - loss / 2.5, 15.2, step_us, 0.6),
                replicas=replicas,
                batch_size=batch_size,
            )
        )
    return [*events, Evaluated(0.21, 0.93)]


@dataclass
class ScriptedRunner:
    """Writes events into a record; waits before one of them until it is stopped."""

    events: Sequence[Event] = field(default_factory=training_events)
    hold_after: int | None = None
    """Number of events after which only a stop lets it go on."""
    started: list[str] = field(default_factory=list)
    record: RunRecord | None = None
    """Of the newest run."""
    _ticks: Iterator[int] = field(default_factory=lambda: count(1_700_000_000))

    def __call__(
        self,
        spec: ExperimentSpec,
        control: RunControl,
        emit: Callable[[Event], None],
        *,
        preset: str = "",
        resume: str | None = None,
        plan: Plan | None = None,
    ) -> RunStatus:
        self.started.append(preset)
        if resume:
            self.record = record = open_run(resume).reopen()
            record.resumed(first_epoch=1)
        else:
            self.record = record = RunRecord.create(spec_to_tables(spec), preset)

        def tell(event: Event) -> None:
            self.append(event)
            emit(event)

        tell(RunStarted(record.run_id, preset, spec_to_tables(spec)))
        status = RunStatus.FINISHED
        for number, event in enumerate(self.events):
            if number == self.hold_after:
                control.stop.wait(timeout=30)
            if control.should_stop():
                status = RunStatus.STOPPED
                break
            tell(event)
        tell(RunEnded(status))
        record.finish(status)
        return status

    def append(self, event: Event) -> None:
        """Write an event into the record, one second after the one before."""
        assert self.record is not None
        self.record.append_all([(event, float(next(self._ticks)))])


class FailingRunner(ScriptedRunner):
    """Breaks after its record is there, and leaves that as it is."""

    def __call__(self, spec, control, emit, *, preset="", resume=None, plan=None):  # type: ignore[no-untyped-def]
        record = RunRecord.create(spec_to_tables(spec), preset)
        emit(RunStarted(record.run_id, preset, spec_to_tables(spec)))
        record.close()
        raise RuntimeError("the backend broke")


def record_run(
    preset: str,
    changes: Iterable[str] = (),
    status: RunStatus = RunStatus.FINISHED,
    epochs: int = 2,
    rate: float = 30.0,
) -> str:
    """Write the record of a run that has ended, and return its id."""
    tables, _ = apply_overrides(load_preset(preset).tables, list(changes))
    spec, problems = validate(tables)
    assert spec is not None, problems
    record = RunRecord.create(spec_to_tables(spec), preset)
    plan = plan_experiment(spec)
    steps = plan.ipu_step_us, plan.replicas, plan.request.batch_size
    events = training_events(epochs, rate, *steps)
    for event in events:
        record.append(event)
    last = next(item for item in reversed(events) if isinstance(item, EpochEnded))
    summary = {"accuracy": last.accuracy, "loss": last.loss, "epochs": epochs}
    record.append(RunEnded(status, "", summary))
    record.finish(status, "", summary)
    return record.run_id
