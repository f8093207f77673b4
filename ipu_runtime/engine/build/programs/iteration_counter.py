"""Which iteration of its pipeline or loop the code being traced belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_counter: ContextVar[Any] = ContextVar("counter", default=None)


@contextmanager
def counted_by(counter: Any) -> Iterator[None]:
    """Let `counter` be the number of the iteration for the code inside."""
    token = _counter.set(counter)
    try:
        yield
    finally:
        _counter.reset(token)


def current_iteration() -> Any:
    """Return the counter of the innermost pipeline or loop, or None without any."""
    return _counter.get()
