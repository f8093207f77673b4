"""The numbers that a run has come to, read from what happened in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from workbench.runs.events import EpochEnded, StepTimes
from workbench.runs.run_store import StoredRun
from workbench.runs.series import RunSeries, series_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the numbers of a run are read from."""

    series: RunSeries
    seconds: float | None
    batch_size: int
    """Of the newest step; 0 if it is not known."""


Choice = Callable[[Iterable[float]], float]
_Reading = Callable[[Outcome], float | None]

READINGS: tuple[tuple[str, str, Choice, _Reading], ...] = (
    ("loss, best", "loss_best", min, lambda o: _best(o, "loss", min)),
    ("loss, last", "loss_last", min, lambda o: _last(o, "loss")),
    ("accuracy, best", "accuracy_best", max, lambda o: _best(o, "accuracy", max)),
    ("accuracy, last", "accuracy_last", max, lambda o: _last(o, "accuracy")),
    ("test loss", "test_loss", min, lambda o: _test(o, "loss")),
    ("test accuracy", "test_accuracy", max, lambda o: _test(o, "accuracy")),
    (
        "samples/s, modelled",
        "samples_per_second",
        max,
        lambda o: _last(o, "samples_per_second"),
    ),
    (
        "samples/s, measured",
        "host_samples_per_second",
        max,
        lambda o: _last(o, "host_samples_per_second"),
    ),
    (
        "per batch, modelled, us",
        "ipu_us_per_batch",
        min,
        lambda o: _last(o, "ipu_us_per_batch"),
    ),
    (
        "per batch, measured, ms",
        "host_ms_per_batch",
        min,
        lambda o: _last(o, "host_ms_per_batch"),
    ),
    ("training time, measured, s", "seconds", min, lambda o: o.seconds),
    ("epochs done", "epochs", max, lambda o: _epochs(o)),
)
"""Words for people, key for programs, which is best, and how it is read."""

OUTCOMES = tuple(key for _, key, _, _ in READINGS)
"""Names of the numbers that a run can have."""


def outcome_of(run: StoredRun) -> dict[str, float]:
    """Return the known numbers of one run by key, as a sweep ranks them."""
    outcome = read_outcome(run)
    read_values = {key: read(outcome) for _, key, _, read in READINGS}
    return {key: value for key, value in read_values.items() if value is not None}


def read_outcome(run: StoredRun) -> Outcome:
    """Read what happened in a run."""
    events = run.events()
    times = [
        event.seconds
        for event in events
        # A validation is part of the epoch that it follows.
        if isinstance(event, EpochEnded) and not event.call.startswith("validate")
    ]
    sizes = [event.batch_size for event in events if isinstance(event, StepTimes)]
    seconds = sum(times) if times else None
    return Outcome(series_of(events), seconds, sizes[-1] if sizes else 0)


def _best(outcome: Outcome, metric: str, choose: Choice) -> float | None:
    curve = outcome.series.epochs.get(metric)
    fine = outcome.series.steps.get(metric)
    if curve is None and fine is not None and fine.unit != "epoch":
        curve = fine
    return curve.best(choose) if curve else None


def _last(outcome: Outcome, metric: str) -> float | None:
    curve = outcome.series.epochs.get(metric) or outcome.series.steps.get(metric)
    return curve.last if curve else None


def _test(outcome: Outcome, metric: str) -> float | None:
    evaluation = outcome.series.evaluation
    return getattr(evaluation, metric) if evaluation else None


def _epochs(outcome: Outcome) -> float | None:
    curve = outcome.series.epochs.get("loss")
    return float(len(curve.ys)) if curve else None
