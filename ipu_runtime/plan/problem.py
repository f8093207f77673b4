"""What is wrong with a configuration, said once for every place that shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum


class Severity(Enum):
    """How much a problem matters."""

    ERROR = "error"
    """The run cannot start."""
    NO_FIT = "does not fit"
    """The run could start, but the modelled device has no room for it."""
    WARNING = "warning"
    """The run starts, and does something the user may not expect."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a configuration cannot run, or runs differently than hoped."""

    where: str
    """Dotted path of the field, for example `pipeline.schedule`."""
    problem: str
    """What is wrong, with the value that is wrong."""
    hint: str = ""
    """What would be valid, or what to try."""
    severity: Severity = Severity.ERROR
    exception: str = "ValueError"
    """Name of the exception that the real runtime raises for it."""
    suggestion: object = None
    """A value for `where` that would be valid, so that one key can take it."""
    others: tuple[tuple[str, object], ...] = ()
    """Other fields that would do instead, with the value that each would need."""

    def at(self, path: str) -> Problem | None:
        """Return the problem as it is told at a field; None if it is not its."""
        if path == self.where:
            return self
        others = dict(self.others)
        if path not in others:
            return None
        return replace(self, where=path, suggestion=others[path], others=())

    @property
    def message(self) -> str:
        """What a script is told by the exception: the same text, without the field."""
        return f"{self.problem}; {self.hint}" if self.hint else self.problem

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def deciding_first(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return all problems once, in one list: what keeps a run from starting leads.

    Those of one severity stay as they were found, a cause before what follows from it.
    """
    # Suggestions may be lists, so that problems have no hash; a file can have 100,000.
    once = {repr(item): item for item in problems}
    order = tuple(Severity)
    return tuple(sorted(once.values(), key=lambda item: order.index(item.severity)))
