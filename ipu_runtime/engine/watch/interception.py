"""How somebody outside of a script sees its settings, and changes them in time.

The settings go by plain names, whichever call takes them: `schedule` is the same for
a Keras model, an estimator and a pipeline of functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # Whoever checks a configuration does without numpy.
    from ipu_runtime.plan.request import PlanRequest


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is about to run for the first time."""

    name: str
    """The call behind it: `fit`, `evaluate`, `predict`, `train`, `run`, `compile`."""
    api: str
    """`ipu_strategy`, `ipu_estimator` or `ipu_pipeline_estimator`."""
    request: PlanRequest | None
    """What its plan is asked; None if its layers are not known."""
    reason: str = ""
    """Why they are not known."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of it: `loss`, `learning_rate`, `one_block`."""
    remarks: tuple[str, ...] = ()
    """What had to be assumed."""


class Interceptor(Protocol):
    """Somebody who sees and may change what a script asks for."""

    @property
    def wants_layers(self) -> bool:
        """Whether functions are watched while they are traced, to find their layers."""

    def configuring(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return changes of the configuration, given what is not its default."""

    def calling(
        self, program: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return changes of settings that a call takes."""

    def starting(self, program: Program) -> None:
        """A program is checked and planned, and nothing of it has run."""

    def noticed(self, what: str) -> None:
        """The script has called something that settings may be given to."""


_interceptor: Interceptor | None = None
"""Of the whole process, because a script may train in threads of its own."""


def current_interceptor() -> Interceptor | None:
    """Return who looks at the settings of this process, if anybody does."""
    return _interceptor


@contextmanager
def intercepted_by(interceptor: Interceptor) -> Iterator[None]:
    """Let `interceptor` see every setting of what runs inside, and nobody else."""
    global _interceptor
    outer, _interceptor = _interceptor, interceptor
    try:
        yield
    finally:
        _interceptor = outer


def changed_settings(
    program: str, training: bool, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the settings of a call that somebody wants otherwise."""
    if _interceptor is None:
        return {}
    return _interceptor.calling(program, training, settings)


def announce(program: Program) -> None:
    """Tell that a program is about to run for the first time."""
    if _interceptor is not None:
        _interceptor.starting(program)


def notice(what: str) -> None:
    """Tell that the script calls something that settings may be given to."""
    if _interceptor is not None:
        _interceptor.noticed(what)
