"""Commentary on standard error: what is going on, and what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.reports.plain_text import plain_line, plain_text


def say(text: str) -> None:
    """Tell something that is not a result."""
    if sys.stderr is None or sys.stderr.closed:
        return  # A script that has ended here has done that.
    sys.stderr.write(f"{plain_text(text)}\n")
    sys.stderr.flush()


def report_problems(problems: Iterable[Problem], file: str = "") -> None:
    """Print every problem on its own line, with the file it is in."""
    for problem in problems:
        prefix = f"{file}: " if file else ""
        mark = "warning: " if problem.severity is Severity.WARNING else ""
        say(plain_line(f"{mark}{prefix}{problem}"))
