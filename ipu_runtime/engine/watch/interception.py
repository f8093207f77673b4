"""How somebody outside of a script sees its settings, and changes them in time.

The settings go by plain names and have plain values, whichever call takes them:
`schedule` is the same for a Keras model, an estimator and a pipeline of functions, and
is a text. `engine/describe/call_settings.py` is the table of those that calls take; the
fields of a configuration are settings too, as `ipu.` and their path.

[Note: interceptors of a process]
Interceptors belong to the process and not to a thread or a context, because a script
may train in threads that it starts itself. So:

- `intercepted_by` may be entered and left by any thread, in any order; each leaves with
  the block that has entered it.
- They are asked in the thread that makes the call, and several may be at it at once: an
  interceptor with state has to guard it.
- Of nested ones the innermost is asked first, with what the script says. Every one
  around it sees the settings as those inside of it have left them, and has the last
  word: the outermost one belongs to whoever has started everything.
- A call sees the interceptors of the moment that it begins; one that raises stops it,
  and those further out are not asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # Whoever checks a configuration does without numpy.
    from ipu_runtime.plan.request import PlanRequest

CONFIGURATION = "configure_ipu_system"
"""The call whose settings are the fields of a configuration."""


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

    def calling(
        self, call: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return changes of the settings that a call takes.

        Args:
            call: `fit`, `train`, `pipelining_ops.pipeline`, `CONFIGURATION`, ...
            training: Whether it trains.
            settings: All that may be changed, by name; plain values.
        """

    def starting(self, program: Program) -> None:
        """A program is checked and planned, and nothing of it has run."""

    def noticed(self, what: str) -> None:
        """The script has called something that settings may be given to."""


_interceptors: tuple[Interceptor, ...] = ()
"""The outermost one first; replaced as a whole, so that readers need no lock."""
_entering = threading.Lock()


@contextmanager
def intercepted_by(interceptor: Interceptor) -> Iterator[None]:
    """Let `interceptor` see every setting of what runs inside, in all threads."""
    global _interceptors
    with _entering:
        _interceptors = (*_interceptors, interceptor)
    try:
        yield
    finally:
        with _entering:
            entered = list(_interceptors)
            last = max(i for i, item in enumerate(entered) if item is interceptor)
            del entered[last]
            _interceptors = tuple(entered)


def is_intercepted() -> bool:
    """Tell whether anybody looks at the settings of this process."""
    return bool(_interceptors)


def layers_wanted() -> bool:
    """Tell whether anybody wants to know the layers that functions call."""
    return any(interceptor.wants_layers for interceptor in _interceptors)


def changed_settings(
    call: str, training: bool, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the settings of a call that somebody wants otherwise."""
    changes: dict[str, Any] = {}
    for interceptor in reversed(_interceptors):
        changes |= interceptor.calling(call, training, {**settings, **changes})
    return changes


def announce(program: Program) -> None:
    """Tell that a program is about to run for the first time."""
    for interceptor in reversed(_interceptors):
        interceptor.starting(program)


def notice(what: str) -> None:
    """Tell that the script calls something that settings may be given to."""
    for interceptor in reversed(_interceptors):
        interceptor.noticed(what)
