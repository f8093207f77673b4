"""Runs side by side: what was set differently, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.weight_updates import effective_rate, samples_per_update
from workbench.comparing.changed_plans import request_of
from workbench.comparing.model_words import model_of, model_words
from workbench.comparing.outcome import READINGS, Choice, Outcome, read_outcome
from workbench.comparing.run_names import RunNames, name_runs
from workbench.experiment.field_differences import (
    FieldDifference,
    differences,
    flatten,
)
from workbench.experiment.tables import field_value
from workbench.runs.run_store import StoredRun
from workbench.runs.series import TIMES, RunSeries


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One number of every compared run."""

    name: str
    """Words for people; `key` is for programs."""
    key: str
    values: tuple[float | None, ...]
    best_index: int | None
    """Which run is best, if one can be; None when all are equal or unknown."""
    other_units: str = ""
    """What makes the numbers of the runs be of different things; empty if nothing."""


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

    def _repr_html_(self) -> str:
        """Return the comparison for a cell of a notebook, which calls this."""
        # Documents lie above what they are of, and only notebooks ask for them here.
        from ipu_runtime.reports.document_html import notebook_html
        from workbench.views.comparison import comparison_document

        return notebook_html(comparison_document(self))

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


_NAMES = ("experiment.name", "experiment.group", "script.directory")
"""Differ without changing anything."""
_STAGES = "pipeline.stages"
"""Without them nothing of the pipeline means anything."""
_LOSSES = ("train.loss", "train.losses")
_OF_LOSS = ("loss_best", "loss_last", "test_loss")
_UNRANKED = ("epochs", "seconds")
"""Runs of different lengths are not better or worse for it."""


_UPDATES: Mapping[str, Callable[[PlanRequest], float]] = {
    "samples per update": samples_per_update,
    "effective learning rate": effective_rate,
}


def compare_runs(runs: Sequence[StoredRun]) -> Comparison:
    """Put runs side by side, in the order given."""
    outcomes = [read_outcome(run) for run in runs]
    metrics = []
    fields = _fields(runs)
    units = _other_units(outcomes, fields)
    for name, key, choose, read in READINGS:
        values = tuple(read(outcome) for outcome in outcomes)
        if any(value is not None for value in values):
            ranked = key not in (*_UNRANKED, *units)
            best = _best_index(values, choose) if ranked else None
            metrics.append(MetricRow(name, key, values, best, units.get(key, "")))
    metrics += _of_updates(runs)
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


def _of_updates(runs: Sequence[StoredRun]) -> Iterator[MetricRow]:
    """Yield what weight updates are made of, where that differs; none is better."""
    requests = [request_of(run) for run in runs]
    for name, figure in _UPDATES.items():
        values = tuple(
            (figure(request) or None) if request and request.training else None
            for request in requests
        )
        if len(set(values) - {None}) > 1:
            yield MetricRow(name, name.replace(" ", "_"), values, None)


def _fields(runs: Sequence[StoredRun]) -> tuple[FieldDifference, ...]:
    """Return what differs; None where a run has no use for it or does not tell."""
    known = [_known_paths(run) for run in runs]
    return tuple(
        FieldDifference(
            item.path,
            tuple(
                value if knows(item.path) else None
                for value, knows in zip(item.values, known, strict=True)
            ),
        )
        for item in differences(*(run.tables for run in runs))
    )


def _known_paths(run: StoredRun) -> Callable[[str], bool]:
    """Return how to tell whether a setting means something for a run."""
    if run.script:
        return set(flatten(run.tables)).__contains__
    if field_value(run.tables, _STAGES):
        return lambda path: True
    return lambda path: path == _STAGES or not path.startswith("pipeline.")


def _other_units(
    outcomes: Sequence[Outcome], fields: Sequence[FieldDifference]
) -> dict[str, str]:
    """Return which numbers are of different things in these runs, and why."""
    units: dict[str, str] = {}
    if len({outcome.batch_size for outcome in outcomes}) > 1:
        units |= dict.fromkeys(TIMES, "batches differ in size")
    losses = [item.values for item in fields if item.path in _LOSSES]
    if any(len(set(map(_loss_kind, values))) > 1 for values in losses):
        units |= dict.fromkeys(_OF_LOSS, "losses differ in kind")
    return units


def _loss_kind(loss: object) -> str:
    """Return the same for losses that only want their labels otherwise."""
    return str(loss).replace("sparse_", "")


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
        "other_units": {
            row.key: row.other_units for row in comparison.metrics if row.other_units
        },
        "curves": [
            {
                metric: {"epochs": list(curve.xs), "values": list(curve.ys)}
                for metric, curve in series.epochs.items()
            }
            for series in comparison.series
        ],
    }


def _best_index(values: Sequence[float | None], choose: Choice) -> int | None:
    numbers = [value for value in values if value is not None and value == value]
    if len(numbers) < 2 or min(numbers) == max(numbers):
        return None
    return values.index(choose(numbers))
