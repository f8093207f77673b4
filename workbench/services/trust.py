"""Asking before code runs that somebody else may have written: see `code_trust`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.models.code_trust import check_may_run, is_trusted, trust
from workbench.models.model_source import SourceError, source_file
from workbench.services.refused import Refused


class Untrusted(Refused):
    """Code would run that nobody has allowed to run as it is now.

    The app asks `question` and calls `allow`; a command wants `--trust`.
    """

    def __init__(self, problem: Problem, question: str, code: Sequence[Path]) -> None:
        super().__init__(problem.problem, problem.hint, problem.where)
        self.question, self._code = question, tuple(code)

    def allow(self) -> None:
        """Let the code run while it is the same: the user has said so."""
        for file in self._code:
            trust(file)


def check_sources(name: str, tables: Mapping[str, Any], trusted: bool = False) -> None:
    """Refuse code that an experiment names, unless the user says that it is trusted.

    Args:
        name: What names the code, as the question tells it.
        tables: The experiment.
        trusted: Whether to let it run from now on.
    """
    # Late: it loads the planner, which the app's first frame does without.
    from workbench.experiment.experiment_loading import untrusted_sources

    sources = untrusted_sources(tables)
    files = [file for item in sources.values() if (file := source_file(item))]
    if trusted:
        for file in files:
            trust(file)
        return
    for path, source in sources.items():
        named = " and ".join(item.text for item in sources.values())
        question = f"{name} runs {named}. Do you trust its author?"
        try:
            check_may_run(source)
        except SourceError as error:
            raise Untrusted(error.as_problem(path), question, files) from error


def check_script(title: str, script: Path) -> None:
    """Refuse a script that a record or an experiment names, and not the user."""
    if not is_trusted(script):
        text = f"{script} has not run here as it is now"
        raise Untrusted(
            Problem("", text, f"ipu-workbench exec {script} says that you trust it"),
            f"{title}: {text}. Do you trust its author?",
            [script],
        )
