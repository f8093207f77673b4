"""One point of a sweep: its experiment, and what the model says about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.quantities import byte_size
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.validation import understood, validate
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.same_training import (
    same_rate,
    training_changes,
    update_samples,
)
from workbench.planning.staged_spec import (
    set_arguments,
    staged_spec,
    without_pipeline,
)
from workbench.sweeps.sweep_grid import STAGES, Point

HIGHER_IS_BETTER = frozenset(
    {
        "samples_per_second",
        "host_samples_per_second",
        "accuracy_best",
        "accuracy_last",
        "test_accuracy",
        "epochs",
    }
)
"""Metrics of which more is better; of all others less is."""

_OF_UPDATES = frozenset({"data.batch_size", "execution.gradient_accumulation"})
"""Fields that say how many samples an update has."""

PLAN_METRICS = (
    "samples_per_second",
    "ipu_us_per_batch",
    "memory_fraction",
    "bubble_fraction",
    "waiting_fraction",
    "replicas",
    "ipus",
)
"""All modelled; `memory_fraction` is the fullest tile's share of its capacity."""

_RATES = {
    "ipu_us_per_batch": "samples_per_second",
    "host_ms_per_batch": "host_samples_per_second",
}
"""What compares points whose batches differ in size, instead of times per batch."""


@dataclass(frozen=True, slots=True)
class PointResult:
    """What came of a point."""

    index: int
    values: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""
    """Why the point is not valid or failed; empty for a good one."""
    run_id: str = ""
    """Of a trained point."""
    stages: tuple[int, ...] = ()
    """Stage of every layer, where balancing has chosen it."""
    changes: tuple[str, ...] = ()
    """Other fields that a number of stages has set, as `--set` takes them."""
    training: tuple[str, ...] = ()
    """What these change of the training, in words."""
    batch_size: int = 0
    """Of its experiment; 0 where there is none."""
    stopped_epoch: int = 0
    """Epoch after which others were better, so that it was stopped; 0 if it was not."""


@dataclass(frozen=True, slots=True)
class PointExperiment:
    """The experiment of a point, or why there is none."""

    spec: ExperimentSpec | None
    tables: Mapping[str, Any]
    problems: tuple[Problem, ...]
    stages: tuple[int, ...] = ()
    changes: tuple[str, ...] = ()
    training: tuple[str, ...] = ()


def experiment_at(base: Mapping[str, Any], point: Point) -> PointExperiment:
    """Put a point's values into the experiment that the sweep starts from."""
    texts = [f"{path}={text}" for path, text in point.values.items() if path != STAGES]
    tables, problems = apply_overrides(base, texts)
    if problems:
        return PointExperiment(None, tables, tuple(problems))
    if STAGES in point.values:
        return _balanced(tables, point)
    spec, problems = validate(tables)
    return PointExperiment(spec, tables, tuple(problems))


def _balanced(tables: Mapping[str, Any], point: Point) -> PointExperiment:
    """Cut the layers into a number of stages, and set what these need.

    One stage is no pipeline. What the grid sets itself stays as it is, even where that
    is not valid.
    """
    # What the grid sets of an update is not there to make up for its stages.
    before = understood(tables)
    samples = 0 if _OF_UPDATES & point.values.keys() else update_samples(before)
    # The preset's own assignment may not suit, and is about to be replaced; without one
    # there is no pipeline, which not every interface can do without.
    tables = without_pipeline(tables)
    spec, problems = validate(tables)
    if spec is None:
        return PointExperiment(None, tables, tuple(problems))
    count = int(point.values[STAGES])
    stages: tuple[int, ...] = ()
    if count == 1:
        plain = same_rate(before, staged_spec(spec, (), samples))
        changes = set_arguments(spec, plain)
    else:
        balanced = balanced_experiment(spec, count, samples=samples, before=before)
        changes, result = balanced.changes, balanced.result
        if not result.feasible:
            missing = byte_size(result.excess_bytes)
            reason = result.problem or f"no split fits, {missing} too much on an IPU"
            return PointExperiment(None, tables, (Problem(STAGES, reason),))
        stages = result.stage_of_layer
    asked = [f"{path}={text}" for path, text in point.values.items() if path != STAGES]
    tables, problems = apply_overrides(tables, [*changes, *asked])
    spec, more_problems = validate(tables)
    problems = (*problems, *more_problems)
    if spec is None:
        return PointExperiment(None, tables, problems)
    others = tuple(
        text
        for text in set_arguments(before, spec)
        if not text.startswith("pipeline.stages=")
    )
    training = training_changes(before, spec)
    return PointExperiment(spec, tables, problems, stages, others, training)


def plan_point(base: Mapping[str, Any], point: Point) -> PointResult:
    """Return what the model says about a point."""
    experiment = experiment_at(base, point)
    if experiment.spec is None:
        return refused(point, experiment.problems)
    plan = plan_experiment(experiment.spec, with_remedies=False)
    reasons = [item for item in plan.problems if item.severity is not Severity.WARNING]
    metrics = plan_metrics(plan) if plan.step is not None else {}
    problem = "; ".join(str(item) for item in reasons) or plan.not_modelled
    return result_of(point, experiment, metrics, problem)


def result_of(
    point: Point,
    experiment: PointExperiment,
    metrics: Mapping[str, float],
    problem: str,
) -> PointResult:
    """Return the result of a point that could be tried."""
    return PointResult(
        point.index,
        point.values,
        metrics,
        problem,
        stages=experiment.stages,
        changes=experiment.changes,
        training=experiment.training,
        batch_size=experiment.spec.data.batch_size if experiment.spec else 0,
    )


def refused(point: Point, problems: tuple[Problem, ...]) -> PointResult:
    """Return the result of a point that cannot run."""
    errors = [item for item in problems if item.severity is not Severity.WARNING]
    reason = "; ".join(str(item) for item in errors) or "is not valid"
    return PointResult(point.index, point.values, problem=reason)


def plan_metrics(plan: Plan) -> dict[str, float]:
    """Return the modelled numbers by which points can be ranked."""
    return {name: getattr(plan, name) for name in PLAN_METRICS}


def comparable(results: Iterable[PointResult], metric: str) -> str:
    """Return the metric, or another where it is of different things at some points."""
    sizes = {result.batch_size for result in results if not result.problem}
    return _RATES.get(metric, metric) if len(sizes) > 1 else metric


def ranked(results: Iterable[PointResult], metric: str) -> list[PointResult]:
    """Return the good points whose metric is a number, best first."""
    good = [
        result
        for result in results
        if not result.problem and math.isfinite(_value(result, metric))
    ]
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    return sorted(good, key=lambda r: (sign * r.metrics[metric], r.index))


def _value(result: PointResult, metric: str) -> float:
    value: float | None = result.metrics.get(metric)
    return math.nan if value is None else value
