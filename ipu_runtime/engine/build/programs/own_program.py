"""Programs that a script runs itself, as they are told to who watches it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.watch.observer import (
    ProgramCall,
    Progress,
    begin_call,
    call_observer,
    tell_at_end,
)

_TOLD_EVERY_S = 0.1
_ALL_TOLD = 100
"""So many executions are told one by one: few and short ones are a curve, too."""
_MOST_NUMBERS = 8


@dataclass
class OwnProgram:
    """A function that a strategy or a session runs, over all of its executions."""

    kind: str
    """`run` or `compile`."""
    name: str
    """Of the function."""
    graph: Any = None
    """What it does on one replica."""
    shards: int = 1
    """IPUs of a replica that it places something on."""
    fed_out: bool = False
    """Whether its numbers come through an outfeed."""
    dequeued: dict[str, str] = field(default_factory=dict)
    """Names of what a session gets from its outfeeds, by tensor."""
    executions: int = 0
    _call: ProgramCall | None = None
    _trains: bool = False
    _held: list[tuple[Any, int]] = field(default_factory=list)
    """Results of the newest execution, and the highest rank of numbers in them."""
    _seconds: float = 0.0
    _told_at: float = 0.0
    _told_executions: int = 0

    def began(self, replicas: int) -> None:
        """Tell that it is about to run for the first time."""
        if self._call is None and call_observer() is not None:
            # The planner and all layers: scripts that nobody watches do without.
            from ipu_runtime.engine.describe.own_request import plan_own, trains

            planned = plan_own(self.name, self.graph, replicas, self.shards)
            self._trains = trains(self.graph)
            self._call = begin_call(self.kind, self.name, planned)

    def executed(self, seconds: float, results: Any = None) -> None:
        """Take in an execution; it is told now and then."""
        self.executions += 1
        if self.executions > 1:
            # The first one compiles.
            self._seconds += seconds
        # Looking into them takes longer than a short execution may.
        self._held = [(results, 0)]
        # What a script dequeues afterwards belongs to this execution: tell it then.
        if not self.fed_out:
            self._tell_if_due()

    def took(self, results: Any) -> None:
        """Take in what the script has dequeued: numbers of iterations and replicas."""
        self._held.append((results, 2))
        self._tell_if_due()

    def _tell_if_due(self) -> None:
        long_ago = time.perf_counter() - self._told_at >= _TOLD_EVERY_S
        if long_ago or self.executions <= _ALL_TOLD:
            self.tell()

    def tell(self) -> None:
        """Tell what has come since the last time."""
        observer = call_observer()
        new = self.executions - self._told_executions
        if observer is None or self._call is None or not new:
            return
        first = self._told_executions == 0
        timed = new - 1 if first else new
        logs = _with_loss(_numbers(self._held), self._trains)
        self._told_at, self._told_executions = time.perf_counter(), self.executions
        planned = self._call.planned
        steps = planned.request.steps_per_execution if planned.request else 1
        step_ms = 1e3 * self._seconds / (timed * steps) if timed else 0.0
        self._held, self._seconds = [], 0.0
        observer.progressed(
            Progress(
                "run", 1, self.executions, 0, logs, step_ms, planned.step_us, self._call
            )
        )


_traced: ContextVar[OwnProgram | None] = ContextVar("traced", default=None)


def own_program(kind: str, function: Any) -> OwnProgram | None:
    """Return a program to tell about; None if nobody wants to know."""
    if call_observer() is None:
        return None
    program = OwnProgram(kind, getattr(function, "__name__", type(function).__name__))
    tell_at_end(program.tell)
    return program


def traced_program() -> OwnProgram | None:
    """Return the program whose function is being traced."""
    return _traced.get()


@contextmanager
def tracing(program: OwnProgram | None) -> Iterator[None]:
    """Let outfeeds that are used inside belong to a program."""
    token = _traced.set(program)
    try:
        yield
    finally:
        _traced.reset(token)


def named_parts(name: str, results: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a structure with the keys that lead to them."""
    if isinstance(results, Mapping):
        # In the order in which TensorFlow flattens.
        for key in sorted(results, key=str):
            path = f"{name}/{key}" if name else str(key)
            yield from named_parts(path, results[key])
    elif isinstance(results, list | tuple):
        for index, part in enumerate(results):
            only = len(results) == 1
            yield from named_parts(name if only else f"{name} {index}".strip(), part)
    else:
        yield name, results


def _is_floating(value: Any, most_rank: int) -> bool:
    kind, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if kind is None or shape is None or len(shape) > most_rank:
        return False
    return bool(tf.as_dtype(kind).is_floating)


def _numbers(held: Sequence[tuple[Any, int]]) -> dict[str, float]:
    """Return the mean of each number over iterations and replicas."""
    numbers: dict[str, float] = {}
    for results, most_rank in held:
        for name, value in named_parts("", results):
            if _is_floating(value, most_rank) and len(numbers) < _MOST_NUMBERS:
                array = np.asarray(value, dtype=float)
                if array.size:
                    numbers[name or "output"] = float(array.mean())
    return numbers


def _with_loss(numbers: dict[str, float], trains: bool) -> dict[str, float]:
    """Return the numbers with a `loss`: what is called so, else the first of training.

    A program that changes no weights has no loss unless something is called so.
    """
    if "loss" in numbers or not numbers:
        return numbers
    called = [name for name in numbers if "loss" in name.lower()]
    if called or trains:
        return {"loss": numbers[(called or list(numbers))[0]], **numbers}
    return numbers
