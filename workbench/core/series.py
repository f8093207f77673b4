"""A run's curves, made from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from workbench.core.events import EpochEnded, Evaluated, Event, Progressed

METRICS = ("loss", "accuracy", "host_step_ms", "ipu_step_us")


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over the course of a run."""

    xs: tuple[float, ...] = ()
    """Epochs done, as a fraction: 1.5 is half-way through the second epoch."""
    ys: tuple[float, ...] = ()

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.ys[-1] if self.ys else None

    def best(self, choose: Callable[[Iterable[float]], float] = min) -> float | None:
        """Return the best value among those that are numbers."""
        numbers = [y for y in self.ys if y == y]
        return choose(numbers) if numbers else None


@dataclass(frozen=True, slots=True)
class RunSeries:
    """All curves of a run."""

    steps: dict[str, Curve] = field(default_factory=dict)
    """By metric, a point for every piece of work."""
    epochs: dict[str, Curve] = field(default_factory=dict)
    """By metric, a point for every epoch."""
    evaluation: Evaluated | None = None

    def curve(self, metric: str) -> Curve:
        """Return the finest curve there is of a metric."""
        fine = self.steps.get(metric, Curve())
        return fine if len(fine.ys) > 1 else self.epochs.get(metric, Curve())


class SeriesBuilder:
    """Grows the curves of a run event by event: a live run costs no rereading."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[list[float], list[float]]] = _empty()
        self._epochs: dict[str, tuple[list[float], list[float]]] = _empty()
        self.evaluation: Evaluated | None = None

    def add(self, event: Event) -> None:
        """Take in what just happened."""
        if isinstance(event, Progressed):
            x = event.epoch - 1 + event.step / max(event.steps, 1)
            _add(self._steps, x, event)
        elif isinstance(event, EpochEnded):
            _add(self._epochs, float(event.epoch), event)
        elif isinstance(event, Evaluated):
            self.evaluation = event

    def series(self) -> RunSeries:
        """Return the curves so far."""
        return RunSeries(_curves(self._steps), _curves(self._epochs), self.evaluation)


def series_of(events: Iterable[Event]) -> RunSeries:
    """Collect the curves of a run."""
    builder = SeriesBuilder()
    for event in events:
        builder.add(event)
    return builder.series()


def _empty() -> dict[str, tuple[list[float], list[float]]]:
    return {metric: ([], []) for metric in METRICS}


def _add(
    curves: dict[str, tuple[list[float], list[float]]],
    x: float,
    event: Progressed | EpochEnded,
) -> None:
    for metric, (xs, ys) in curves.items():
        value = getattr(event, metric)
        # A piece that was compiled while it ran has no time of its own: 0.
        if value is not None and (value != 0 or metric != "host_step_ms"):
            xs.append(x)
            ys.append(value)


def _curves(raw: dict[str, tuple[list[float], list[float]]]) -> dict[str, Curve]:
    return {m: Curve(tuple(xs), tuple(ys)) for m, (xs, ys) in raw.items() if ys}
