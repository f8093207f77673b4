"""The one loop that runs programs: in pieces, so that numbers stream and stop acts.

[Note: Pieces of an execution]
A device runs an execution (`steps_per_execution` batches of Keras, or
`iterations_per_loop` iterations of an estimator) without the host. Here TensorFlow runs
it in pieces. Between two of them the host asks whether to stop, takes checkpoints and
tells who watches. What must hold wherever a piece ends:

- Results do not depend on it. Programs leave all that they hand on in variables:
  weights, the optimizer, `ExecutableProgram.state`, accumulated gradients. Means over
  pieces are made of sums of doubles, which are exact for float32 values.
- A piece is a multiple of `ExecutableProgram.unit`: a pipeline run cannot be cut.
- A piece ends with a whole step of all replicas, unless it is shorter than a step.
  Curves are made of the differences of running sums over steps.
- The first piece of a program compiles. It is one unit long, and its time counts for
  nothing: neither for the sizes of the next ones nor for the time of a step.
- A piece takes about as long as `piece_s` says, and is at most eight times as large as
  the one before. Every process of a job has sizes of its own; where all of them meet to
  take a checkpoint is agreed upon beforehand, see `checkpointing.py`.
- Time in which somebody else has paused the loop is no time of a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.build.programs.executable import BuiltProgram, StoppedError
from ipu_runtime.engine.run.checkpointing import Checkpoints
from ipu_runtime.engine.watch.observer import ProgressReport, piece_s
from ipu_runtime.system.instance_exchange import lost_instances_named
from ipu_runtime.system.instances import Instance

LOOK_EVERY_S = 0.05
"""Inside of a piece nobody is asked more often."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some batches that have just been run."""

    first: int
    """Number of its first batch in the epoch; batches are counted over replicas."""
    end: int
    """Number of the batch after it."""
    results: Any
    """What the program returned."""
    is_last: bool
    """Whether it completes what was asked for."""


class PieceLoop:
    """Runs the program of one call: a `fit` with its epochs, a `train`, a `predict`."""

    def __init__(
        self,
        program: BuiltProgram,
        name: str,
        report: ProgressReport,
        instance: Instance,
        *,
        batches_per_step: int = 1,
        watched: bool = False,
    ) -> None:
        """Take the program, and who is told of it.

        Args:
            name: The program as it is told to others while its first piece compiles;
                empty if they are not told.
            report: Where progress goes; it also says whether to stop.
            instance: This process among those that run the program together.
            batches_per_step: Batches that all replicas together take in a step.
            watched: Whether pieces are short even if nobody observes the call.
        """
        self.program = program
        self.report = report
        self.instance = instance
        self.stopped = False
        """Whether somebody outside has asked to stop."""
        self.batches = 0
        """Batches that were run."""
        self.timed_batches = 0
        """Those of all pieces but the first, which compiles."""
        self.seconds = 0.0
        """Measured time of these."""
        self._name = name
        self._batches_per_step = batches_per_step
        self._piece_s = piece_s(watched or report.observer is not None)
        self._logs: Mapping[str, float] = {}
        self._looked_at = 0.0

    @property
    def step_ms(self) -> float:
        """Measured time of a step."""
        steps = self.timed_batches / self._batches_per_step
        return self.seconds * 1e3 / steps if steps else 0.0

    def pieces(
        self, source: Any, first: int, end: int, checkpoints: Checkpoints
    ) -> Iterator[Piece]:
        """Run the batches from `first` to `end`; yield every piece when it is done.

        A checkpoint is taken after the caller has seen the piece before it. The loop
        ends early, with `stopped`, if somebody asks for it.
        """
        while first < end:
            if self.report.should_stop():
                self.stopped = True
                return
            count = self._size(first, end, checkpoints)
            try:
                results = self.run_piece(source, first, count)
            except StoppedError:
                self.stopped = True
                return
            first += count
            yield Piece(first - count, first, results, first == end)
            if first < end:
                checkpoints.take_if_due(first)

    def tell(self, step: int, logs: Mapping[str, float]) -> None:
        """Tell of progress, once a step is measured or the epoch is over."""
        self._logs = logs
        self.report.tell(step, logs)

    def begin_epoch(self, epoch: int) -> None:
        """Count steps from the beginning of an epoch; 0 outside of training."""
        self.stopped, self._logs = False, {}
        self.report.begin_epoch(epoch)

    def _size(self, first: int, end: int, checkpoints: Checkpoints) -> int:
        most = min(end - first, checkpoints.most(first))
        count = self.program.sizes.next(most, self._piece_s)
        beyond = (first + count) % self._batches_per_step
        return count - beyond if beyond < count else count

    def run_piece(self, source: Any, first: int, count: int) -> Any:
        """Run some batches and measure them; return the program's results."""
        program, report = self.program, self.report
        compiles = not program.sizes.compiled
        told = report.observer if compiles and self._name else None
        if told is not None:
            told.compiling(self._name)
        paused_s, began = report.paused_s, time.perf_counter()

        def look(batches: float) -> None:
            running_s = time.perf_counter() - began - (report.paused_s - paused_s)
            self._look(first, min(batches, count - 1), running_s)

        with lost_instances_named(self.instance):
            results = program.executable.run(source, first, count, look)
        seconds = time.perf_counter() - began - (report.paused_s - paused_s)
        program.sizes.record(count, seconds)
        self.batches += count
        if not compiles:
            self.timed_batches += count
            self.seconds += seconds
            report.measured(seconds, count / self._batches_per_step)
        elif told is not None:
            told.compiled(
                self._name, seconds, program.planned.compile_s, str(program.choice)
            )
        return results

    def _look(self, first: int, batches: float, running_s: float) -> None:
        """Ask whether to stop inside of a long piece, and tell how far it is."""
        report, now = self.report, time.perf_counter()
        if report.observer is None or now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        if report.should_stop():
            raise StoppedError
        steps = int(batches) // self._batches_per_step
        step = first // self._batches_per_step + steps
        step_ms = report.step_ms or (running_s * 1e3 / steps if steps else 0.0)
        if report.due and self._logs and step_ms and step > report.told_step:
            report.tell_at(step, self._logs, step_ms)
