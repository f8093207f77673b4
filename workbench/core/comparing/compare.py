"""Runs side by side: what was set differently, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_runtime.plan.model.model_spec import ModelSpec
from workbench.core.comparing.model_words import model_of, model_words
from workbench.core.comparing.run_names import RunNames, name_runs
from workbench.core.experiment.field_differences import (
    FieldDifference,
    differing_fields,
    flatten,
)
from workbench.core.runs.events import EpochEnded
from workbench.core.runs.run_store import StoredRun
from workbench.core.runs.series import RunSeries, series_of


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One number of every compared run."""

    name: str
    """Words for people; `key` is for programs."""
    key: str
    values: tuple[float | None, ...]
    best_index: int | None
    """Which run is best, if one can be; None when all are equal or unknown."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs side by side."""

    runs: tuple[StoredRun, ...]
    fields: tuple[FieldDifference, ...]
    """All that was set differently, layers of the model included."""
    metrics: tuple[MetricRow, ...]
    series: tuple[RunSeries, ...]
    models: tuple[ModelSpec | None, ...]
    names: RunNames

    @property
    def settings(self) -> tuple[FieldDifference, ...]:
        """What was set differently, but for the layers of the model."""
        return _settings(self.fields)

    @property
    def model_differs(self) -> bool:
        """Whether the models are not all the same."""
        layers = [model.layers if model else None for model in self.models]
        return any(item != layers[0] for item in layers)


def _settings(fields: Sequence[FieldDifference]) -> tuple[FieldDifference, ...]:
    return tuple(
        item
        for item in fields
        if item.path not in _NAMES
        and (item.path == "model.dtype" or not item.path.startswith("model."))
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    series: RunSeries
    seconds: float | None


_Reading = Callable[[_Outcome], float | None]
_Choice = Callable[[Iterable[float]], float]

_NAMES = ("experiment.name", "experiment.group", "script.directory")
"""Differ without changing anything."""
_SAMPLES_PER_SECOND = ("samples/s, modelled", "samples_per_second")
_UNRANKED = ("epochs", "seconds")
"""Runs of different lengths are not better or worse for it."""

_READINGS: tuple[tuple[str, str, _Choice, _Reading], ...] = (
    ("loss, best", "loss_best", min, lambda o: _best(o, "loss", min)),
    ("loss, last", "loss_last", min, lambda o: _last(o, "loss")),
    ("accuracy, best", "accuracy_best", max, lambda o: _best(o, "accuracy", max)),
    ("accuracy, last", "accuracy_last", max, lambda o: _last(o, "accuracy")),
    ("test loss", "test_loss", min, lambda o: _test(o, "loss")),
    ("test accuracy", "test_accuracy", max, lambda o: _test(o, "accuracy")),
    (
        "step time, measured, ms",
        "host_step_ms",
        min,
        lambda o: _last(o, "host_step_ms"),
    ),
    ("step time, modelled, µs", "ipu_step_us", min, lambda o: _last(o, "ipu_step_us")),
    ("training time, measured, s", "seconds", min, lambda o: o.seconds),
    ("epochs done", "epochs", max, lambda o: _epochs(o)),
)

OUTCOMES = tuple(key for _, key, _, _ in _READINGS)
"""Names of the numbers that a run can have."""


def compare_runs(runs: Sequence[StoredRun]) -> Comparison:
    """Put runs side by side, in the order given."""
    outcomes = [_outcome(run) for run in runs]
    metrics = []
    for name, key, choose, read in _READINGS:
        values = tuple(read(outcome) for outcome in outcomes)
        if any(value is not None for value in values):
            best = None if key in _UNRANKED else _best_index(values, choose)
            metrics.append(MetricRow(name, key, values, best))
    rates = tuple(_number(run.plan.get("samples_per_second")) for run in runs)
    if any(rate is not None for rate in rates):
        metrics.append(MetricRow(*_SAMPLES_PER_SECOND, rates, _best_index(rates, max)))
    fields = _fields(runs)
    models = tuple(model_of(run) for run in runs)
    words = [model_words(model) for model in models]
    return Comparison(
        tuple(runs),
        fields,
        tuple(metrics),
        tuple(outcome.series for outcome in outcomes),
        models,
        name_runs(runs, _settings(fields), words),
    )


def _fields(runs: Sequence[StoredRun]) -> tuple[FieldDifference, ...]:
    """Return what differs; what a script's record leaves out is not known."""
    known = [set(flatten(run.tables)) if run.script else None for run in runs]
    return tuple(
        FieldDifference(
            item.path,
            tuple(
                value if paths is None or item.path in paths else None
                for value, paths in zip(item.values, known, strict=True)
            ),
        )
        for item in differing_fields([run.tables for run in runs])
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value else None


def outcome_of(run: StoredRun) -> dict[str, float]:
    """Return the known numbers of one run by key, as a sweep ranks them."""
    outcome = _outcome(run)
    read_values = {key: read(outcome) for _, key, _, read in _READINGS}
    return {key: value for key, value in read_values.items() if value is not None}


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as one object."""
    return {
        "event": "comparison",
        "runs": [
            {
                "run_id": run.run_id,
                "name": name,
                "preset": run.preset,
                "status": run.status.value,
                "model": model_words(model),
            }
            for run, name, model in zip(
                comparison.runs, comparison.names.names, comparison.models, strict=True
            )
        ],
        "fields": [
            {"path": item.path, "values": list(item.values)}
            for item in comparison.fields
        ],
        "metrics": {row.key: list(row.values) for row in comparison.metrics},
        "curves": [
            {
                metric: {"epochs": list(curve.xs), "values": list(curve.ys)}
                for metric, curve in series.epochs.items()
            }
            for series in comparison.series
        ],
    }


def _outcome(run: StoredRun) -> _Outcome:
    events = run.events()
    times = [
        event.seconds
        for event in events
        # A validation is part of the epoch that it follows.
        if isinstance(event, EpochEnded) and not event.call.startswith("validate")
    ]
    return _Outcome(series_of(events), sum(times) if times else None)


def _best(outcome: _Outcome, metric: str, choose: _Choice) -> float | None:
    curve = outcome.series.epochs.get(metric)
    fine = outcome.series.steps.get(metric)
    if curve is None and fine is not None and fine.unit != "epoch":
        curve = fine
    return curve.best(choose) if curve else None


def _last(outcome: _Outcome, metric: str) -> float | None:
    curve = outcome.series.epochs.get(metric) or outcome.series.steps.get(metric)
    return curve.last if curve else None


def _test(outcome: _Outcome, metric: str) -> float | None:
    evaluation = outcome.series.evaluation
    return getattr(evaluation, metric) if evaluation else None


def _epochs(outcome: _Outcome) -> float | None:
    curve = outcome.series.epochs.get("loss")
    return float(len(curve.ys)) if curve else None


def _best_index(values: Sequence[float | None], choose: _Choice) -> int | None:
    numbers = [value for value in values if value is not None and value == value]
    if len(numbers) < 2 or min(numbers) == max(numbers):
        return None
    return values.index(choose(numbers))
