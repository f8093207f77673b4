"""From one run to another: one changed field at a time, with its modelled cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ipu_runtime.plan.plan import Plan
from workbench.comparing.changed_plans import Way, way_between
from workbench.comparing.run_names import value_words
from workbench.experiment.field_differences import FieldDifference
from workbench.runs.run_store import StoredRun

_MOST_TOGETHER = 3
_MANY = 12
"""Of so many changes no three are tried together."""
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """What the plan says after some more fields have the other run's values."""

    changes: tuple[FieldDifference, ...]
    """One, or those that only work together; none for the run to begin with."""
    us: float
    delta_us: float
    samples_per_second: float
    memory_fraction: float
    """How full the fullest tile is."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The way from the first run to the second, in modelled time."""

    unit: str
    """What the times are of: a batch, or a sample where batches differ in size."""
    steps: tuple[ExplainedStep, ...]
    """The first run as it was, then the changes that cost or gain something."""
    without_effect: tuple[FieldDifference, ...]
    problem: str = ""
    """Why there is nothing to tell; empty if there is."""
    training: tuple[str, ...] = ()
    """What differs in the training itself, in words."""


def explain(first: StoredRun, second: StoredRun) -> Explanation:
    """Return the modelled cost of every difference between two runs."""
    way = way_between(first, second)
    if isinstance(way, str):
        return Explanation("batch", (), (), way)
    per_sample = "data.batch_size" in {change.path for change in way.changes}
    before = way.start
    steps = [_step((), before, before, per_sample)]
    idle: list[FieldDifference] = []
    for changes, plan in _taken(way):
        step = _step(changes, plan, before, per_sample)
        if _same(plan, before):
            idle += changes
        else:
            steps.append(step)
        before = plan
    unit = "sample" if per_sample else "batch"
    return Explanation(unit, tuple(steps), tuple(idle), training=way.training)


def change_words(
    change: FieldDifference, names: Mapping[str, str] | None = None
) -> str:
    """Return a change: `schedule Grouped to Interleaved`; names are of the fields."""
    before, after = (value_words(change.path, value) for value in change.values)
    return f"{(names or {}).get(change.path, change.path)} {before} to {after}"


def explanation_to_json(
    first: StoredRun, second: StoredRun, explanation: Explanation
) -> dict[str, Any]:
    """Return an explanation as one object; all figures are modelled."""
    return {
        "event": "explanation",
        "from": first.run_id,
        "to": second.run_id,
        "modelled": True,
        "unit": f"us per {explanation.unit}",
        "problem": explanation.problem,
        "steps": [
            {
                "changes": [_change_json(change) for change in step.changes],
                "us": step.us,
                "delta_us": step.delta_us,
                "samples_per_second": step.samples_per_second,
                "memory_fraction": step.memory_fraction,
            }
            for step in explanation.steps
        ],
        "training_changes": list(explanation.training),
        "without_effect": [_change_json(item) for item in explanation.without_effect],
    }


def _change_json(change: FieldDifference) -> dict[str, Any]:
    before, after = change.values
    return {"path": change.path, "from": before, "to": after}


def _taken(way: Way) -> Iterator[tuple[tuple[FieldDifference, ...], Plan]]:
    """Take the changes one by one; those that cannot be alone, together."""
    left = list(way.changes)
    done: list[FieldDifference] = []
    while left:
        group, plan = _next(way, done, left)
        done += group
        left = [change for change in left if change not in group]
        yield group, plan


def _next(
    way: Way, done: Sequence[FieldDifference], left: Sequence[FieldDifference]
) -> tuple[tuple[FieldDifference, ...], Plan]:
    most = _MOST_TOGETHER if len(left) <= _MANY else _MOST_TOGETHER - 1
    for size in range(1, min(most, len(left) - 1) + 1):
        for group in combinations(left, size):
            plan = way.plan([*done, *group])
            if plan is not None:
                return group, plan
    return tuple(left), way.end


def _step(
    changes: tuple[FieldDifference, ...], plan: Plan, before: Plan, per_sample: bool
) -> ExplainedStep:
    us, us_before = _us(plan, per_sample), _us(before, per_sample)
    rate, memory = plan.samples_per_second, plan.memory_fraction
    return ExplainedStep(changes, us, us - us_before, rate, memory)


def _us(plan: Plan, per_sample: bool) -> float:
    return plan.ipu_us_per_batch / (plan.request.batch_size if per_sample else 1)


def _same(plan: Plan, before: Plan) -> bool:
    times = plan.ipu_us_per_batch, before.ipu_us_per_batch
    rates = plan.samples_per_second, before.samples_per_second
    return all(abs(a - b) <= _NOTHING * abs(b) for a, b in (times, rates))
