"""What the choices of a field would change, in a few words each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.quantities import change, share
from workbench.editing.draft import check_tables, with_values
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import parse_value


def consequence(
    tables: Mapping[str, Any], now: Plan | None, path: str, choice: str
) -> str:
    """Return what a choice would do: `+3 % samples/s, memory 14 to 19 %`, modelled.

    Args:
        tables: The experiment as it is.
        now: Its plan; without one there is nothing to compare with.
        path: The field.
        choice: What it would be, as typed.
    """
    # It loads NumPy, which the first frame can do without.
    from workbench.planning.experiment_plan import plan_experiment

    value = parse_value(FIELD_OF_PATH[path], choice)
    spec, problems = check_tables(with_values(tables, {path: value}))
    if spec is None:
        wrong = [item for item in problems if item.severity is Severity.ERROR]
        return f"cannot run: {wrong[0].problem}" if wrong else "cannot run"
    plan = plan_experiment(spec, with_remedies=False)
    errors = [item for item in plan.problems if item.severity is Severity.ERROR]
    if plan.not_modelled:
        return f"no modelled figures: {plan.not_modelled}"
    if errors or plan.step is None:
        return f"cannot run: {errors[0].problem}" if errors else "cannot be planned"
    if now is None or now.step is None:
        return ""
    parts = [_rate(plan, now), _memory(plan, now)]
    if any(item.severity is Severity.NO_FIT for item in plan.problems):
        parts.append("does not fit")
    return ", ".join(part for part in parts if part) or "changes nothing"


def _rate(plan: Plan, now: Plan) -> str:
    new, old = plan.samples_per_second, now.samples_per_second
    return f"{change(new, old)} samples/s" if new != old else ""


def _memory(plan: Plan, now: Plan) -> str:
    before, after = (share(item.memory_fraction) for item in (now, plan))
    return f"memory {before} to {after}" if before != after else ""
