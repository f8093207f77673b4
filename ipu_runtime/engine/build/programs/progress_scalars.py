"""Scalars beside the loss that a model function wants to see while it trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MOST_SCALARS = 4
"""The loss, and what may be added; a loop's shape is fixed before it is traced."""

_scalars: ContextVar[dict[str, Any] | None] = ContextVar("scalars", default=None)


def add_progress_scalar(name: str, tensor: Any) -> None:
    """Average a scalar over the loop, like the loss; for whoever watches the run."""
    scalars = _scalars.get()
    if scalars is not None:
        scalars[name] = tensor


@contextmanager
def collected_scalars() -> Iterator[dict[str, Any]]:
    """Collect what the code inside adds, by name."""
    scalars: dict[str, Any] = {}
    token = _scalars.set(scalars)
    try:
        yield scalars
    finally:
        _scalars.reset(token)
