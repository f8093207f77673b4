"""What all programs have in common: they run one piece of an epoch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.frameworks.types import Operation, Session, Tensor, Variable

_GROWTH = 8
Look = Callable[[float], None]
"""Called inside of a long piece with the batches done so far, from any thread."""


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """How a program runs here, and why."""

    compiled: bool
    reason: str

    def __str__(self) -> str:
        return f"{'XLA' if self.compiled else 'graph executor'}: {self.reason}"


def graph_executor(reason: str) -> ExecutorChoice:
    """Return the choice of TensorFlow's graph executor."""
    return ExecutorChoice(False, reason)


class StoppedError(Exception):
    """Somebody outside has asked to stop in the middle of a piece."""


class ExecutableProgram(Protocol):
    """What trains, evaluates or predicts on consecutive batches, with TensorFlow."""

    @property
    def unit(self) -> int:
        """Batches that a piece must be a multiple of."""

    @property
    def choice(self) -> ExecutorChoice | None:
        """How it runs here; None before its first piece, and in a session."""

    @property
    def peak_stash(self) -> tuple[int, ...]:
        """Most micro-batches that each stage kept for its backward pass."""

    @property
    def state(self) -> Sequence[Variable]:
        """What a piece leaves to the next one besides weights and the optimizer."""

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Work on some batches of an epoch; return results by batch, if any.

        Args:
            source: What a feed gives for an epoch, a session, or a script's own call.
            first: Number of the first batch in its epoch.
            count: Batches; a multiple of `unit`.
            look: Called by programs whose pieces may take long; may raise
                `StoppedError`, which comes out of `run` then.
        """


class PieceSize:
    """Learns how many batches take about as long as a piece should."""

    def __init__(self, unit: int, compiled: bool = False) -> None:
        self._unit = unit
        self._most = unit
        self.compiled = compiled
        """Whether the program has run before."""
        self.batch_s = 0.0
        """Measured time of a batch; 0 before anything is measured."""

    def next(self, remaining: int, wanted_s: float) -> int:
        """Return how many of the remaining batches to do in one go."""
        wanted = int(wanted_s / max(self.batch_s, 1e-9)) // self._unit * self._unit
        return min(max(self._unit, wanted), self._most, remaining)

    def record(self, batches: int, seconds: float) -> None:
        """Take in how long a piece took; the first one only compiles."""
        if not self.compiled:
            self.compiled = True
            return
        self.batch_s = seconds / batches
        self._most = max(self._unit, batches // self._unit * self._unit) * _GROWTH


@dataclass(frozen=True)
class BuiltProgram:
    """A program that can be run: how, in which pieces, and its plan."""

    executable: ExecutableProgram
    sizes: PieceSize
    planned: ProgramPlan

    @property
    def choice(self) -> ExecutorChoice | None:
        """How it runs here; None before it has run."""
        return self.executable.choice


class SessionLoop:
    """A loop in a graph: what runs it is a session, in which variables live."""

    choice = None
    state = ()

    def __init__(
        self,
        iterations: Tensor,
        sums: Mapping[str, Tensor],
        operation: Operation,
        unit: int,
        peak_stash: tuple[int, ...] = (),
    ) -> None:
        """Take the loop as it stands in the graph.

        Args:
            iterations: Placeholder for the number of them in one call.
            sums: Scalars summed over the iterations of one call.
            operation: Completes with the iterations.
            unit: Batches of an iteration, over all replicas.
            peak_stash: Most micro-batches that waited at each stage.
        """
        self.unit = unit
        self.peak_stash = peak_stash
        self._iterations = iterations
        self._fetches = sums, operation

    def run(
        self, source: Session, first: int, count: int, look: Look
    ) -> Mapping[str, float]:
        """Run whole iterations in a session; return the sums over them."""
        iterations = {self._iterations: count // self.unit}
        sums: Mapping[str, float] = source.run(self._fetches, iterations)[0]
        return sums
