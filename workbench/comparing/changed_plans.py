"""Plans on the way from one run to another: some fields changed, some not yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.weight_updates import update_changes
from workbench.comparing.model_words import model_of, model_words
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_differences import FieldDifference, differences
from workbench.experiment.overrides import set_value
from workbench.experiment.tables import field_value, value_in
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import CPU, plan_experiment, plan_request
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import recorded_request

MODEL = "model"
_DTYPE = "model.dtype"
_PIPELINE = "pipeline"
_PATHS = {
    "batch_size": "data.batch_size",
    "batches": "batches of an epoch",
    "label_values": "values of a label",
    "steps_per_execution": "execution.steps_per_execution",
    "gradient_accumulation": "execution.gradient_accumulation",
    "sums_micro_batches": "sum over micro-batches",
    "sums_replicas": "sum over replicas",
    "optimizer": "train.optimizer",
    "training": "training",
    "steady": "steady state",
    "ipus": "ipu.auto_select_ipus",
    "system": "execution.system",
    "model": MODEL,
    "pipeline": _PIPELINE,
}
"""What requests of plans hold, under the names that experiments have for it."""

Changes = Collection[FieldDifference]


@dataclass(frozen=True, slots=True)
class Way:
    """What differs between two runs, and the plan with some of it changed."""

    changes: tuple[FieldDifference, ...]
    plan: Callable[[Changes], Plan | None]
    """None if it could not run like that."""
    start: Plan
    end: Plan
    training: tuple[str, ...] = ()
    """What differs in the training itself, in words."""


def way_between(first: StoredRun, second: StoredRun) -> Way | str:
    """Return the way from one run to another, or why one of them has no plan."""
    for run in (first, second):
        if field_value(run.tables, "execution.api") == CPU:
            return (
                f"{run.run_id} ran on the CPU, of which nothing is modelled; "
                "their measured times compare"
            )
    before, after = request_of(first), request_of(second)
    if first.script or second.script:
        if before is None or after is None:
            return f"{(second if before else first).run_id} has no plan to begin with"
        changes = _request_changes(before, after)
        way = _way(changes, lambda taken: _requested(before, after, taken))
    else:
        changes = _field_changes(first, second)
        way = _way(changes, lambda taken: _planned(first.tables, second.tables, taken))
    if isinstance(way, str) or before is None or after is None:
        return way
    return replace(way, training=update_changes(before, after))


def _way(
    changes: tuple[FieldDifference, ...], plan: Callable[[Changes], Plan | None]
) -> Way | str:
    start, end = plan(()), plan(changes)
    if start is None or end is None:
        which = "first" if start is None else "second"
        return f"the {which} run cannot be planned any more as it was"
    return Way(changes, plan, start, end)


def _field_changes(first: StoredRun, second: StoredRun) -> tuple[FieldDifference, ...]:
    changes = []
    before, after = model_of(first), model_of(second)
    if (before and before.layers) != (after and after.layers):
        words = (model_words(before), model_words(after))
        changes.append(FieldDifference(MODEL, words))
    found = differences(first.tables, second.tables)
    fields = (item for item in found if item.path in FIELD_OF_PATH)
    described = ("experiment.", "model.")
    changes += (
        item
        for item in fields
        if item.path == _DTYPE or not item.path.startswith(described)
    )
    return tuple(changes)


def _planned(
    before: Mapping[str, Any], after: Mapping[str, Any], taken: Changes
) -> Plan | None:
    tables = dict(before)
    for change in taken:
        if change.path == MODEL:
            dtype = value_in(tables, _DTYPE)
            tables[MODEL] = {**after.get(MODEL, {}), "dtype": dtype}
    for change in taken:
        if change.path != MODEL:
            tables = set_value(tables, change.path, value_in(after, change.path))
    spec, _ = validate(tables)
    return _usable(plan_experiment(spec, with_remedies=False)) if spec else None


def request_of(run: StoredRun) -> PlanRequest | None:
    """Return what the plan of a run was asked, if that is known."""
    if run.script:
        return recorded_request(run)
    spec, _ = validate(run.tables)
    return plan_request(spec) if spec else None


def _request_changes(
    before: PlanRequest, after: PlanRequest
) -> tuple[FieldDifference, ...]:
    parts = _parts(before), _parts(after)
    paths = dict.fromkeys([*parts[0], *parts[1]])
    return tuple(
        FieldDifference(path, tuple(_words(part.get(path)) for part in parts))
        for path in paths
        if parts[0].get(path) != parts[1].get(path)
    )


def _parts(request: PlanRequest) -> dict[str, Any]:
    named = {
        path: getattr(request, item.name)
        for item in fields(request)
        if (path := _PATHS.get(item.name))
    }
    return named | {f"ipu.{path}": value for path, value in request.config.items()}


def _words(value: Any) -> Any:
    if value is None:
        return "none"
    if isinstance(value, PipelineRequest):
        return f"{value.stages} stages {value.schedule.value}"
    return model_words(value) if hasattr(value, "stage_layers") else value


def _requested(before: PlanRequest, after: PlanRequest, taken: Changes) -> Plan | None:
    paths = {change.path for change in taken}
    values = {
        name: getattr(after, name) for name, path in _PATHS.items() if path in paths
    }
    config = {
        path: value
        for source, wanted in ((before, False), (after, True))
        for path, value in source.config.items()
        if (f"ipu.{path}" in paths) is wanted
    }
    try:
        changed = replace(before, **values, config=config)
        return _usable(make_plan(changed, with_remedies=False))
    except (ValueError, KeyError, IndexError):
        return None


def _usable(plan: Plan) -> Plan | None:
    """Return a plan if it is of something that could run, memory apart."""
    wrong = any(item.severity is Severity.ERROR for item in plan.problems)
    return None if wrong or plan.step is None else plan
