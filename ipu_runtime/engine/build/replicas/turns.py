"""Whose turn it is in a Keras model, whose replicas run one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class Turn:
    """What the code being traced is done for."""

    replica: Any
    """Number of the replica in this process; None: done once, for all of them."""
    replicas: int
    """Replicas of this process."""
    instance: Instance

    @property
    def index(self) -> Any:
        """Number of the replica among those of all processes."""
        return self.instance.index * self.replicas + self.replica


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


def current_turn() -> Turn | None:
    """Return the turn that code is traced for, if there are several replicas."""
    turn = _turn.get()
    return turn if turn and turn.replicas * turn.instance.count > 1 else None


@contextmanager
def in_turn(turn: Turn) -> Iterator[None]:
    """Trace what is inside for a replica, or for all of them."""
    token = _turn.set(turn)
    try:
        yield
    finally:
        _turn.reset(token)
