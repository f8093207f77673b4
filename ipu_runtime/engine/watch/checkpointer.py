"""How a training loop lets somebody take checkpoints between two weight updates."""

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


class Checkpointer(Protocol):
    """Somebody who can go on later where a training loop is now."""

    def due(self) -> bool:
        """Asked between pieces: whether to be told after the next weight update."""

    def due_in_s(self) -> float:
        """Return the seconds until then; infinite if that is never."""

    def checkpoint(self, part: PartOfEpoch) -> None:
        """No weight update is under way; the epoch has come so far."""

    def begun(self) -> PartOfEpoch | None:
        """Return what the epoch that starts now goes on from; None: its start."""


_current: ContextVar[Checkpointer | None] = ContextVar("checkpointer", default=None)


def current_checkpointer() -> Checkpointer | None:
    """Return who takes checkpoints of the training loops of this thread."""
    return _current.get()


@contextmanager
def checkpointed_by(checkpointer: Checkpointer) -> Iterator[None]:
    """Let `checkpointer` take checkpoints of every training loop started inside."""
    token = _current.set(checkpointer)
    try:
        yield
    finally:
        _current.reset(token)
