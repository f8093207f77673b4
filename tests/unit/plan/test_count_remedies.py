"""Counts that are named beside an error were planned, and never contradict it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ipu_runtime.plan import count_remedies
from ipu_runtime.plan.count_remedies import working_counts
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.request_checks import check_request
from workbench.experiment.experiment_loading import load_experiment
from workbench.planning.experiment_plan import plan_request


def two_grouped() -> PlanRequest:
    """Return a request whose two stages run in turns of four micro-batches."""
    spec = load_experiment("mnist-ipu-pipelined").spec
    assert spec is not None
    return replace(
        plan_request(spec),
        batches=960,
        steps_per_execution=10,
        gradient_accumulation=10,
    )


def test_the_remedy_takes_a_count_that_the_error_names() -> None:
    wrong = check_request(two_grouped())[0]
    assert "must be a multiple of 4, but it is 10" in wrong.problem
    assert "try 8 or 12" in wrong.hint
    assert "gradient_accumulation = 12" in working_counts(two_grouped())


def test_the_remedy_has_no_problems_itself() -> None:
    remedy = working_counts(two_grouped())
    counts = dict(
        part.strip().rsplit(" = ", 1)
        for part in remedy.removeprefix("planned: ").split(" runs")[0].split(",")
    )
    fixed = replace(
        two_grouped(),
        gradient_accumulation=int(counts["execution.gradient_accumulation"]),
        steps_per_execution=int(counts["execution.steps_per_execution"]),
    )
    errors = [p for p in check_request(fixed) if p.severity is Severity.ERROR]
    assert errors == []


def test_nothing_is_named_where_no_count_helps() -> None:
    assert working_counts(replace(two_grouped(), batches=1)) == ""


def test_a_fault_of_the_planner_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(count_remedies, "make_plan", broken)
    with pytest.raises(ZeroDivisionError):
        working_counts(two_grouped())
