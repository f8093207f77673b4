"""Why a use case is not done: one problem and hint for app, command and notebook."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ipu_runtime.plan.problem import Problem


class Refused(Exception):
    """Something that is asked for cannot be done, and nothing was done.

    The app says it in its status bar; a command prints it on standard error and ends
    with 2.
    """

    def __init__(self, problem: str, hint: str = "", where: str = "") -> None:
        super().__init__(problem, hint, where)
        self.problems: tuple[Problem, ...] = (Problem(where, problem, hint),)
        self.file = ""
        """What the problems are in: a file, a preset, a run."""
        self.code = 2
        """Exit code of a command: 2 for what is wrong, 3 for what does not fit."""

    @classmethod
    def for_problems(cls, problems: Iterable[Problem], file: str = "") -> Refused:
        """Return the refusal for all that is wrong with an experiment."""
        refused = cls("")
        refused.problems, refused.file = tuple(problems), file
        return refused

    @property
    def problem(self) -> str:
        """What is wrong, the first of several; empty if that was said already."""
        return self.problems[0].problem if self.problems else ""

    @property
    def hint(self) -> str:
        """What would be valid; empty if nothing is."""
        return self.problems[0].hint if self.problems else ""

    def __str__(self) -> str:
        return "; ".join(str(problem) for problem in self.problems)


def check_target(option: str, target: Path | str | None, source: str) -> None:
    """Refuse to write over the file that an experiment, model or script comes from."""
    if target is None:
        return
    # A function of a file is named after it: model.py:build.
    for name in (source, source.rpartition(":")[0]):
        read = Path(os.path.expanduser(name))
        # What cannot be looked at is not there, and a reader says so.
        with suppress(OSError):
            if name and read.samefile(os.path.expanduser(target)):
                raise Refused(f"{read} is read", "choose another file", option)
