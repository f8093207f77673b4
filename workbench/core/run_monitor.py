"""What is known of a run while it goes on or after it ended, from its events alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.core.describe import figure
from workbench.core.events import (
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
from workbench.core.quantities import duration
from workbench.core.series import SeriesBuilder

LIVE = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)
_DEFAULT_EPOCHS = 3


@dataclass(frozen=True, slots=True)
class LogLine:
    """One message of a run."""

    at: float
    """Seconds since the epoch; 0 when it is not known."""
    text: str


@dataclass
class RunMonitor:
    """State of one run, grown event by event."""

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
    events_seen: int = 0
    _first_progress: tuple[float, float] | None = None
    """When the first piece was done, and how much of the run that was."""
    _last_progress_at: float = 0.0

    @classmethod
    def of(
        cls, preset: str, tables: Mapping[str, Any], events: Iterable[Event]
    ) -> RunMonitor:
        """Return the monitor of a recorded run."""
        train = tables.get("train")
        epochs = train.get("epochs") if isinstance(train, Mapping) else None
        monitor = cls(preset, epochs if type(epochs) is int else _DEFAULT_EPOCHS)
        for event in events:
            monitor.add(event, 0.0)
        return monitor

    @property
    def live(self) -> bool:
        """Whether it is not over."""
        return self.status in LIVE

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
        if done <= 0:
            return None
        return (self._last_progress_at - began) / done * (1 - self.fraction)

    def add(self, event: Event, at: float) -> None:
        """Take in what happened, and when."""
        self.events_seen += 1
        self.series.add(event)
        match event:
            case RunStarted():
                self.run_id = event.run_id
                self.status = RunStatus.RUNNING
                self._say(at, f"run {event.run_id} started", "starting")
            case Compiling():
                self._say(at, event.what, event.what)
            case Compiled():
                modelled = duration(event.ipu_compile_s) if event.ipu_compile_s else ""
                aside = f" (an IPU: about {modelled}, modelled)" if modelled else ""
                text = f"compiled {event.program} in {duration(event.seconds)}{aside}"
                self._say(at, text, "training")
            case Progressed():
                self.progress = event
                self.activity = "training"
                self._last_progress_at = at
                if self._first_progress is None:
                    self._first_progress = (at, self.fraction)
            case EpochEnded():
                self.epochs.append(event)
                self._say(at, f"epoch {event.epoch}: {_metrics(event)}", "training")
            case Evaluated():
                self.evaluation = event
                self._say(at, f"test data: {_metrics(event)}", "evaluated")
            case RunEnded():
                self.status, self.message = event.status, event.message
                reason = f": {event.message}" if event.message else ""
                self._say(at, f"{event.status.value}{reason}", event.status.value)

    def _say(self, at: float, text: str, activity: str) -> None:
        self.log.append(LogLine(at, text))
        self.activity = activity


def _metrics(event: EpochEnded | Evaluated) -> str:
    text = f"loss {figure(event.loss)}"
    return (
        text if event.accuracy is None else f"{text}, accuracy {figure(event.accuracy)}"
    )
