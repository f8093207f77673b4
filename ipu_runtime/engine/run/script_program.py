"""Programs that a script runs itself: by `strategy.run`, or in a session.

The script has the loop here. Each execution is one piece of ours, which cannot be cut,
and nobody asks whether to stop: a script is stopped by its signals alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.build.programs.executable import (
    BuiltProgram,
    Look,
    PieceSize,
)
from ipu_runtime.engine.run.piece_loop import PieceLoop
from ipu_runtime.engine.watch.observer import (
    ProgressReport,
    begin_call,
    call_observer,
    tell_at_end,
)
from ipu_runtime.frameworks.types import Graph, Structure
from ipu_runtime.system.instances import Instance

_ALL_TOLD = 100
"""So many executions are told one by one: few and short ones are a curve, too."""
_MOST_NUMBERS = 8


@dataclass(frozen=True)
class _Execution:
    """An execution as a piece: what runs it is the script's own call."""

    unit: int
    """Batches of an execution, over all replicas."""
    choice = None
    peak_stash = ()
    state = ()

    def run(
        self, source: Callable[[], Structure], first: int, count: int, look: Look
    ) -> Structure:
        """Let the script's call do it."""
        return source()


@dataclass
class ScriptProgram:
    """A function that a strategy or a session runs, over all of its executions."""

    kind: str
    """`run` or `compile`."""
    name: str
    """Of the function."""
    graph: Graph = None
    """What it does on one replica."""
    shards: int = 1
    """IPUs of a replica that it places something on."""
    fed_out: bool = False
    """Whether its numbers come through an outfeed."""
    dequeued: dict[str, str] = field(default_factory=dict)
    """Names of what a session gets from its outfeeds, by tensor."""
    executions: int = 0
    _loop: PieceLoop | None = None
    _trains: bool = False
    _results: list[tuple[Structure, int]] = field(default_factory=list)
    """Of the newest execution, and the highest rank of numbers in them."""

    def execute(self, call: Callable[[], Structure], replicas: int) -> Structure:
        """Make the script's call, which runs the program once, and return its results.

        What of them is told comes by `returned` and `took`.
        """
        if self._loop is None:
            if call_observer() is None:
                return call()
            self._loop = self._begin(replicas)
        self.executions += 1
        unit = self._loop.program.executable.unit
        return self._loop.run_piece(call, self._loop.batches, unit)

    def returned(self, results: Structure) -> None:
        """Take in what an execution has returned; it is told now and then."""
        # Looking into them takes longer than a short execution may.
        self._results = [(results, 0)]
        # What a script dequeues afterwards belongs to this execution: tell it then.
        if not self.fed_out:
            self._tell_if_due()

    def took(self, results: Structure) -> None:
        """Take in what the script has dequeued: numbers of iterations and replicas."""
        self._results.append((results, 2))
        self._tell_if_due()

    def tell(self) -> None:
        """Tell what has come since the last time."""
        loop = self._loop
        # A program may outlive who watched it.
        if loop is None or call_observer() is not loop.report.observer:
            return
        if self.executions > loop.report.told_step:
            logs = _with_loss(_numbers(self._results), self._trains)
            self._results = []
            loop.tell(self.executions, logs)

    def _tell_if_due(self) -> None:
        due = self._loop is not None and self._loop.report.due
        if due or self.executions <= _ALL_TOLD:
            self.tell()

    def _begin(self, replicas: int) -> PieceLoop:
        """Tell that it is about to run for the first time."""
        # The planner and all layers: scripts that nobody watches do without.
        from ipu_runtime.engine.describe.function_program import plan_function
        from ipu_runtime.engine.describe.operations_reader import trains

        planned = plan_function(self.name, self.graph, replicas, self.shards)
        self._trains = trains(self.graph)
        call = begin_call(self.kind, self.name, planned)
        request = planned.request
        unit = request.batches if request else 1
        loop = PieceLoop(
            BuiltProgram(_Execution(unit), PieceSize(unit), planned),
            "",
            ProgressReport("run", 0, planned.step_us, call),
            Instance(),
            batches_per_step=replicas if request else 1,
        )
        loop.begin_epoch(1)
        return loop


_traced: ContextVar[ScriptProgram | None] = ContextVar("traced", default=None)


def script_program(kind: str, function: Any) -> ScriptProgram | None:
    """Return a program to tell about; None if nobody wants to know."""
    if call_observer() is None:
        return None
    program = ScriptProgram(
        kind, getattr(function, "__name__", type(function).__name__)
    )
    tell_at_end(program.tell)
    return program


def traced_program() -> ScriptProgram | None:
    """Return the program whose function is being traced."""
    return _traced.get()


@contextmanager
def tracing(program: ScriptProgram | None) -> Iterator[None]:
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


def _numbers(taken: Sequence[tuple[Any, int]]) -> dict[str, float]:
    """Return the mean of each number over iterations and replicas."""
    numbers: dict[str, float] = {}
    for results, most_rank in taken:
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
