"""The exceptions that the device's runtime raises for the rules of the plan."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.request_checks import check_request

_EXCEPTIONS: dict[str, type[Exception]] = {
    "ValueError": ValueError,
    "TypeError": TypeError,
    "RuntimeError": RuntimeError,
    "NotImplementedError": NotImplementedError,
    "FailedPreconditionError": tf.errors.FailedPreconditionError,
    "InvalidArgumentError": tf.errors.InvalidArgumentError,
    "UnimplementedError": tf.errors.UnimplementedError,
}


def checked(request: PlanRequest) -> tuple[Problem, ...]:
    """Return the warnings about a request; raise its first error.

    A line below the traceback names counts that were planned and run.
    """
    problems = check_request(request)
    try:
        raise_for(problems)
    except Exception as error:
        # The planner: not every program that asks for the rules is planned.
        from ipu_runtime.plan.count_remedies import working_counts

        remedy = working_counts(request)
        if remedy:
            error.add_note(f"ipu_runtime: {remedy}")
        raise
    return problems


def raise_for(problems: Iterable[Problem]) -> None:
    """Raise the first error as the device's runtime does; warnings pass."""
    for problem in problems:
        if problem.severity is Severity.ERROR:
            raise _exception(problem)


def _exception(problem: Problem) -> Exception:
    kind = _EXCEPTIONS[problem.exception]
    if issubclass(kind, tf.errors.OpError):
        return kind(None, None, problem.message)
    return kind(problem.message)
