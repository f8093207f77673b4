"""The state of a run and its curves, folded from its events: the same for every run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.quantities import duration
from workbench.runs.describe import loss_and_accuracy
from workbench.runs.events import (
    CallBegan,
    CallEnded,
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    InstancesSeen,
    InstanceState,
    Paused,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
    WentOn,
)
from workbench.runs.series import SeriesBuilder

_DEFAULT_EPOCHS = 3


@dataclass(frozen=True, slots=True)
class LogLine:
    """One message of a run."""

    at: float
    """Seconds since the epoch; 0 when it is not known."""
    text: str


@dataclass
class RunView:
    """State and series of one run, folded from its events one by one.

    Runs of this app, of a command, of a script and of other machines are all shown from
    one of these, which a `RecordFollower` keeps up with the run's record.
    """

    preset: str
    epochs_planned: int
    run_id: str = ""
    status: RunStatus = RunStatus.QUEUED
    message: str = ""
    activity: str = "waiting for the run before it"
    """What goes on right now, in words."""
    progress: Progressed | None = None
    epochs: list[EpochEnded] = field(default_factory=list)
    evaluation: Evaluated | None = None
    log: list[LogLine] = field(default_factory=list)
    series: SeriesBuilder = field(default_factory=SeriesBuilder)
    calls: dict[str, CallBegan] = field(default_factory=dict)
    """What a script has called so far."""
    instances: tuple[InstanceState, ...] = ()
    """How its processes stand, where it has several."""
    script: bool = False
    """Whether it is a run of a script, whose calls are its own affair."""
    events_seen: int = 0
    _first_progress: tuple[float, float] | None = None
    """When the first piece was done, and how much of the run that was."""
    _last_progress_at: float = 0.0
    _paused_at: float | None = None

    @classmethod
    def of(
        cls,
        preset: str,
        tables: Mapping[str, Any],
        events: Iterable[tuple[float, Event]],
    ) -> RunView:
        """Return the view of a recorded run, from what happened when."""
        train = tables.get("train")
        epochs = train.get("epochs") if isinstance(train, Mapping) else None
        view = cls(preset, epochs if type(epochs) is int else _DEFAULT_EPOCHS)
        view.script = "script" in tables
        for at, event in events:
            view.add(event, at)
        return view

    def begin(self, run_id: str = "", activity: str = "starting") -> None:
        """Let it count as running: its record is there, or its thread."""
        self.run_id = run_id or self.run_id
        self.status, self.activity = RunStatus.RUNNING, activity

    @property
    def live(self) -> bool:
        """Whether it is not over."""
        return self.status.live

    @property
    def newest(self) -> EpochEnded | Progressed | None:
        """The newest epoch; of a script without any, its newest execution."""
        if self.epochs:
            return self.epochs[-1]
        return self.progress if self.calls else None

    @property
    def fraction(self) -> float:
        """Share of the training that is done."""
        if self.status is RunStatus.FINISHED:
            return 1.0
        if self.progress is None or not self.epochs_planned:
            return 0.0
        step_share = self.progress.step / max(1, self.progress.steps)
        share = (self.progress.epoch - 1 + step_share) / self.epochs_planned
        return min(1.0, max(0.0, share))

    @property
    def seconds_left(self) -> float | None:
        """Time that the rest of the training takes at the speed so far."""
        if self._first_progress is None or not self.live:
            return None
        began, fraction_then = self._first_progress
        done = self.fraction - fraction_then
        # Clocks are set back at times.
        spent = self._last_progress_at - began
        if done <= 0 or spent < 0:
            return None
        return spent / done * (1 - self.fraction)

    def add(self, event: Event, at: float) -> None:
        """Take in what happened, and when."""
        self.events_seen += 1
        self.series.add(event)
        match event:
            case RunStarted():
                self.run_id = event.run_id
                self.status, self._paused_at = RunStatus.RUNNING, None
                self._first_progress = None
                self._say(at, f"run {event.run_id} started", "starting")
            case Compiling():
                self._say(at, event.what, event.what)
            case Compiled():
                modelled = duration(event.ipu_compile_s) if event.ipu_compile_s else ""
                aside = f" (an IPU: about {modelled}, modelled)" if modelled else ""
                text = f"compiled {event.program} in {duration(event.seconds)}{aside}"
                self._say(at, text, "training")
            case CallBegan():
                self._begin_call(event, at)
            case CallEnded():
                took = duration(event.seconds)
                self._say(at, f"{event.call} ended after {took}", "in the script")
            case Progressed():
                self.progress = event
                self.activity = event.call or "training"
                self._last_progress_at = at
                if self._first_progress is None:
                    self._first_progress = (at, self.fraction)
            case EpochEnded():
                # A script's validation goes with the epoch that it follows.
                if not event.call.startswith("validate"):
                    self.epochs.append(event)
                epoch = f"{event.call} epoch {event.epoch}".strip()
                text = f"{epoch}: {loss_and_accuracy(event)}"
                self._say(at, text, event.call or "training")
            case Evaluated():
                self.evaluation = event
                where = event.call or "test data"
                self._say(at, f"{where}: {loss_and_accuracy(event)}", "evaluated")
            case InstancesSeen():
                if [item.pid for item in event.instances] != [
                    item.pid for item in self.instances
                ]:
                    self._say(at, _whereabouts(event.instances), self.activity)
                self.instances = event.instances
            case Paused():
                self.status, self._paused_at = RunStatus.PAUSED, at
            case WentOn():
                self.status = RunStatus.RUNNING
                self._leave_out(at - self._paused_at if self._paused_at else 0.0)
            case RunEnded():
                self.status, self.message = event.status, event.message
                reason = f": {event.message}" if event.message else ""
                self._say(at, f"{event.status.value}{reason}", event.status.value)

    def _leave_out(self, seconds: float) -> None:
        """Count the time of a pause as if it had not been."""
        self._paused_at = None
        if self._first_progress is not None:
            began, fraction = self._first_progress
            self._first_progress = (began + seconds, fraction)

    def _begin_call(self, event: CallBegan, at: float) -> None:
        self.calls[event.call] = event
        if event.kind != "validate":
            self.epochs_planned, self.progress = event.epochs, None
            self._first_progress = None
        plan = "" if event.plan else f"; no plan: {event.reason}"
        self._say(at, f"{event.call} of {event.name} began{plan}", event.call)

    def _say(self, at: float, text: str, activity: str) -> None:
        self.log.append(LogLine(at, text))
        self.activity = activity


def _whereabouts(instances: tuple[InstanceState, ...]) -> str:
    places = ", ".join(f"{item.pid} on {item.host}" for item in instances[:4])
    more = f" and {len(instances) - 4} more" if len(instances) > 4 else ""
    return f"{len(instances)} instances began: processes {places}{more}"
