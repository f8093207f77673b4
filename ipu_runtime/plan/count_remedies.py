"""Counts with which a refused request would run, each planned before it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest

_FIELDS = {
    "ipu.auto_select_ipus": "ipus",
    "execution.gradient_accumulation": "gradient_accumulation",
    "execution.steps_per_execution": "steps_per_execution",
}
_MOST_CHANGES = 4
"""One valid count may need another."""


def working_counts(request: PlanRequest) -> str:
    """Return one line with counts that run, and their time; empty if none is known."""
    changes: dict[str, Any] = {}
    plan = make_plan(request, with_remedies=False)
    for _ in range(_MOST_CHANGES):
        wrong = next(filter(_is_count, plan.problems), None)
        if wrong is None:
            break
        changes[wrong.where] = wrong.suggestion
        changed: dict[str, Any] = {_FIELDS[wrong.where]: wrong.suggestion}
        request = replace(request, **changed)
        plan = make_plan(request, with_remedies=False)
    if not changes or not plan.ok or plan.step is None:
        return ""
    values = ", ".join(f"{where} = {value}" for where, value in changes.items())
    return f"planned: {values} runs, {plan.ipu_us_per_batch:,.0f} us per batch"


def _is_count(problem: Problem) -> bool:
    return (
        problem.severity is Severity.ERROR
        and problem.where in _FIELDS
        and problem.suggestion is not None
    )
