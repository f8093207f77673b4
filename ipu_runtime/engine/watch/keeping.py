"""How a training loop lets somebody keep its state between two weight updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class PartOfEpoch:
    """How far an epoch has come."""

    step: int
    """Steps that are done, per replica."""
    values: Sequence[Any] = ()
    """What the loop has besides the model and its optimizer: metrics so far, and
    statistics of every replica; arrays in the loop's own order. Of several processes
    each has the values of all along its first axis."""


class Keeper(Protocol):
    """Somebody who can go on later where a training loop is now."""

    def due(self) -> bool:
        """Asked between pieces: whether to be told after the next weight update."""

    def due_in_s(self) -> float:
        """Return the seconds until then; infinite if that is never."""

    def keep(self, part: PartOfEpoch) -> None:
        """No weight update is under way; the epoch has come so far."""

    def begun(self) -> PartOfEpoch | None:
        """Return what the epoch that starts now goes on from; None: its start."""


_keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


def current_keeper() -> Keeper | None:
    """Return who keeps the training loops of this thread."""
    return _keeper.get()


@contextmanager
def kept_by(keeper: Keeper) -> Iterator[None]:
    """Let `keeper` keep every training loop started inside."""
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)
