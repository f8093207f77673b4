"""What the choices of a field would change, in a few words each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.reports.quantities import byte_size, change
from workbench.core.editing.draft import check_tables, draft_fields, with_values
from workbench.core.experiment.field_values import parse_value


def consequence(
    tables: Mapping[str, Any], now: Plan | None, path: str, choice: str
) -> str:
    """Return what a choice would do: `+3 % time, +12.0 MiB`, modelled.

    Args:
        tables: The experiment as it is.
        now: Its plan; without one there is nothing to compare with.
        path: The field.
        choice: What it would be, as typed.
    """
    # It loads NumPy, which the first frame can do without.
    from workbench.core.planning.experiment_plan import plan_experiment

    value = parse_value(draft_fields()[path], choice)
    spec, problems = check_tables(with_values(tables, {path: value}))
    if spec is None:
        wrong = [item for item in problems if item.severity is Severity.ERROR]
        return f"cannot run: {wrong[0].problem}" if wrong else "cannot run"
    plan = plan_experiment(spec, with_remedies=False)
    errors = [item for item in plan.problems if item.severity is Severity.ERROR]
    if errors or plan.step is None:
        return f"cannot run: {errors[0].problem}" if errors else "cannot be planned"
    if now is None or now.step is None:
        return ""
    parts = [_time(plan, now), _memory(plan, now)]
    if any(item.severity is Severity.NO_FIT for item in plan.problems):
        parts.append("does not fit")
    return ", ".join(part for part in parts if part) or "changes nothing"


def _time(plan: Plan, now: Plan) -> str:
    new, old = plan.ipu_us_per_batch, now.ipu_us_per_batch
    return f"{change(new, old)} time" if new != old else ""


def _memory(plan: Plan, now: Plan) -> str:
    difference = _used(plan) - _used(now)
    sign = "+" if difference > 0 else "-"
    return f"{sign}{byte_size(abs(difference))}" if difference else ""


def _used(plan: Plan) -> int:
    """Return what the fullest IPU holds."""
    return plan.sum_over_tiles_bytes
