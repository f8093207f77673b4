"""How a training loop tells what it is doing, and learns that it should stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Progress:
    """A piece of an execution that has just finished."""

    phase: str
    """`train`, `evaluate` or `predict`."""
    epoch: int
    """From 1; 0 outside training."""
    step: int
    """Steps of this epoch that are done, per replica."""
    steps: int
    """Steps of this epoch, per replica."""
    logs: Mapping[str, float]
    """Running metrics, `loss` among them."""
    host_step_ms: float
    """Measured on this machine: wall time of the piece per step."""
    ipu_step_us: float
    """Modelled by the plan."""


class Observer(Protocol):
    """Somebody who watches a training loop from the thread that runs it."""

    def compiling(self, program: str) -> None:
        """A program is about to be built."""

    def compiled(self, program: str, seconds: float, ipu_compile_s: float) -> None:
        """It is built: measured seconds here, modelled seconds for an IPU."""

    def progressed(self, progress: Progress) -> None:
        """A piece of at most about 100 ms is done."""

    def should_stop(self) -> bool:
        """Asked between pieces; may block, which pauses the loop."""


_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


def current_observer() -> Observer | None:
    """Return who watches the training loops of this thread."""
    return _observer.get()


@contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    """Let `observer` watch every training loop started inside."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)
