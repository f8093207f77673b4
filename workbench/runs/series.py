"""A run's curves, made from its events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from workbench.runs.events import (
    CallBegan,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
)

AVERAGED = ("loss", "accuracy")
"""Reported as means since the epoch began; curves show what each report adds."""
TIMES = ("host_ms_per_batch", "ipu_us_per_batch")
"""Measured, and modelled."""
RATES = ("host_samples_per_second", "samples_per_second")
METRICS = (*AVERAGED, *TIMES, *RATES)
TRAINING = ("fit", "train")
"""Kinds of a script's calls that make up the run's own curves, one after the other."""
OWN = ("run", "compile")
"""Kinds of programs that a script runs itself; the first counts where none trains."""
_Raw = dict[str, tuple[list[float], list[float]]]


@dataclass(frozen=True, slots=True)
class Curve:
    """One number over the course of a run."""

    xs: tuple[float, ...] = ()
    """Epochs done, as a fraction: 1.5 is half-way through the second epoch."""
    ys: tuple[float, ...] = ()
    unit: str = "epoch"
    """What is counted; programs of a script's own have executions."""

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self.ys[-1] if self.ys else None

    @property
    def first_broken(self) -> float | None:
        """Where the first value is that is not a finite number."""
        points = zip(self.xs, self.ys, strict=True)
        return next((x for x, y in points if not math.isfinite(y)), None)

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
    means: dict[str, Curve] = field(default_factory=dict)
    """Of loss and accuracy, the mean since the epoch began at every report."""
    evaluation: Evaluated | None = None
    calls: dict[str, RunSeries] = field(default_factory=dict)
    """Of a script, by call: `fit 1`."""

    def curve(self, metric: str) -> Curve:
        """Return the finest curve there is of a metric."""
        fine = self.steps.get(metric, Curve())
        all_there_is = len(fine.ys) > 1 or fine.unit != "epoch"
        return fine if all_there_is else self.epochs.get(metric, fine)


@dataclass
class _Curves:
    """Curves that grow."""

    unit: str = "epoch"
    steps: _Raw = field(default_factory=lambda: {name: ([], []) for name in METRICS})
    epochs: _Raw = field(default_factory=lambda: {name: ([], []) for name in METRICS})
    end: float = 0.0
    """Where the newest point is."""
    means: _Raw = field(default_factory=lambda: {name: ([], []) for name in AVERAGED})
    _before: Progressed | None = None

    def add(self, event: Progressed | EpochEnded, after: float = 0.0) -> None:
        """Take in numbers of a call that begins `after` so many epochs."""
        if isinstance(event, Progressed):
            self.end = after + event.epoch - 1 + event.step / max(event.steps, 1)
            self._add_report(event)
        else:
            self.end = after + float(event.epoch)
            _add(self.epochs, self.end, event, METRICS)

    def _add_report(self, event: Progressed) -> None:
        if self.unit != "epoch":
            _add(self.steps, self.end, event, METRICS)
            return
        times = [metric for metric in METRICS if metric not in AVERAGED]
        _add(self.steps, self.end, event, times)
        before = self._before
        if before is not None and not _goes_on(before, event):
            before = None
        if before is not None and _numbers(before) == _numbers(event):
            return  # Told once more inside a long piece.
        self._before = event
        _add(self.means, self.end, event, AVERAGED)
        _add(self.steps, self.end, _since(before, event), AVERAGED)

    def series(
        self,
        evaluation: Evaluated | None = None,
        calls: dict[str, RunSeries] | None = None,
    ) -> RunSeries:
        """Return the curves so far."""
        steps, epochs = self._read(self.steps), self._read(self.epochs)
        means = self._read(self.means)
        return RunSeries(steps, epochs, means, evaluation, calls or {})

    def _read(self, raw: _Raw) -> dict[str, Curve]:
        return {
            metric: Curve(tuple(xs), tuple(ys), self.unit)
            for metric, (xs, ys) in raw.items()
            if ys
        }


class SeriesBuilder:
    """Grows the curves of a run event by event: a live run costs no rereading."""

    def __init__(self) -> None:
        self._main = _Curves()
        self._calls: dict[str, _Curves] = {}
        self._evaluations: dict[str, Evaluated] = {}
        self._kinds: dict[str, str] = {}
        self._main_calls: list[str] = []
        self._after = 0.0
        self.evaluation: Evaluated | None = None

    def add(self, event: Event) -> None:
        """Take in what just happened."""
        if isinstance(event, CallBegan):
            self._begin(event)
        elif isinstance(event, Progressed | EpochEnded):
            if not event.call:
                self._main.add(event)
            elif event.call in self._calls:
                self._calls[event.call].add(event)
                if event.call in self._main_calls:
                    self._main.add(event, self._after)
        elif isinstance(event, Evaluated):
            self.evaluation = event
            self._evaluations[event.call] = event

    def _begin(self, event: CallBegan) -> None:
        unit = "execution" if event.kind in OWN else "epoch"
        self._calls[event.call] = _Curves(unit)
        self._kinds[event.call] = event.kind
        trained = any(self._kinds[call] in TRAINING for call in self._main_calls)
        if event.kind in TRAINING:
            if not trained:
                self._main, self._main_calls = _Curves(), []
            self._after = self._main.end
            self._main_calls = [event.call]
        elif event.kind in OWN and not self._main_calls:
            self._main, self._main_calls = _Curves(unit), [event.call]

    def series(self) -> RunSeries:
        """Return the curves so far."""
        calls = {
            call: curves.series(self._evaluations.get(call))
            for call, curves in self._calls.items()
        }
        return self._main.series(self.evaluation, calls)


def series_of(events: Iterable[Event]) -> RunSeries:
    """Collect the curves of a run."""
    builder = SeriesBuilder()
    for event in events:
        builder.add(event)
    return builder.series()


def _goes_on(before: Progressed, event: Progressed) -> bool:
    """Tell whether a report counts from the same beginning as the one before."""
    same = (before.call, before.epoch) == (event.call, event.epoch)
    return same and event.step > before.step


def _numbers(event: Progressed) -> tuple[float | None, ...]:
    return event.loss, event.accuracy


def _since(before: Progressed | None, event: Progressed) -> Progressed:
    """Return a report of the steps since the one before: a difference of sums."""
    if before is None:
        return event
    done, new = before.step, event.step - before.step
    accuracy = event.accuracy
    if accuracy is not None and before.accuracy is not None:
        share = (accuracy * event.step - before.accuracy * done) / new
        # A share can leave its range by rounding only.
        accuracy = min(max(share, 0.0), 1.0) if 0 <= accuracy <= 1 else share
    loss = (event.loss * event.step - before.loss * done) / new
    return replace(event, loss=loss, accuracy=accuracy)


def _add(
    curves: _Raw,
    x: float,
    event: Progressed | EpochEnded,
    metrics: Iterable[str],
) -> None:
    for metric in metrics:
        xs, ys = curves[metric]
        value = getattr(event, metric)
        if value is None or (metric == "loss" and _has_no_loss(event)):
            continue
        # A piece that was compiled while it ran has no time of its own: 0. A program
        # without a plan has no modelled one.
        if value != 0 or metric in AVERAGED:
            xs.append(x)
            ys.append(value)


def _has_no_loss(event: Progressed | EpochEnded) -> bool:
    """Whether a script's call has other numbers only, as a prediction has none."""
    return bool(event.call) and "loss" not in event.metrics
