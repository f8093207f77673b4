"""Run a preset in this process and keep its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.runs.events import Event, Progressed, RunStarted, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment


@dataclass
class Recorder:
    """What a run did."""

    events: list[Event] = field(default_factory=list)
    status: RunStatus = RunStatus.QUEUED

    @property
    def run_id(self) -> str:
        """The run's name, to resume it."""
        return next(e.run_id for e in self.events if isinstance(e, RunStarted))


def run_preset(
    name: str,
    overrides: Sequence[str] = (),
    stop_in_epoch: int | None = None,
    resume: str | None = None,
) -> Recorder:
    """Run a preset with overrides; stop it in the middle of an epoch, if asked to."""
    tables, problems = apply_overrides(load_preset(name).tables, list(overrides))
    assert not problems, problems
    spec, problems = validate(tables)
    assert spec is not None, problems
    recorder, control = Recorder(), RunControl()

    def emit(event: Event) -> None:
        recorder.events.append(event)
        if isinstance(event, Progressed) and event.epoch == stop_in_epoch:
            control.stop.set()

    recorder.status = run_experiment(spec, control, emit, preset=name, resume=resume)
    return recorder
