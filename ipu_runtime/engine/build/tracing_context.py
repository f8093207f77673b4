"""What code can ask while it is traced: its replica, its iteration, who watches.

Layers, outfeeds and operations of a script are called from inside of a trace, with no
argument of ours. Whoever traces them sets a context variable around the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class TracedReplica:
    """The replica of a Keras model that code is traced for.

    In one graph, replicas of a Keras model run one after the other, and what they have
    for themselves is a row of a stacked variable: there is no copy of the graph that
    could tell an outfeed or a collective whose it is.
    """

    number: Any
    """Number of the replica in this process; None: done once, for all of them."""
    replicas: int
    """Replicas of this process."""
    instance: Instance

    @property
    def index(self) -> Any:
        """Number of the replica among those of all processes."""
        return self.instance.index * self.replicas + self.number


_replica: ContextVar[TracedReplica | None] = ContextVar("replica", default=None)


def traced_replica() -> TracedReplica | None:
    """Return the replica that code is traced for, if there are several replicas."""
    traced = _replica.get()
    return traced if traced and traced.replicas * traced.instance.count > 1 else None


@contextmanager
def tracing_for(traced: TracedReplica) -> Iterator[None]:
    """Trace what is inside for a replica, or for all of them."""
    token = _replica.set(traced)
    try:
        yield
    finally:
        _replica.reset(token)


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
