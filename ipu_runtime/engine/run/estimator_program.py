"""A program that an estimator runs, and how it is run in pieces."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.describe.model_scope import LayerUse
from ipu_runtime.engine.watch.keeping import PartOfEpoch, current_keeper
from ipu_runtime.engine.watch.observer import (
    ProgramCall,
    Progress,
    current_observer,
    end_call,
    piece_s,
)
from ipu_runtime.plan.schedule.schedule import Schedule
from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class EstimatorProgram:
    """A loop in a graph, ready for a session."""

    units: Any
    """Placeholder: iterations of the loop to run in one call."""
    sums: Mapping[str, Any]
    """Scalars summed over the iterations of one call and averaged over replicas."""
    operation: Any
    """Completes with the iterations."""
    steps_per_unit: int = 1
    """Steps that the global step counts for one iteration."""
    batches_per_unit: int = 1
    """Micro-batches of one iteration, on one replica."""
    accumulation: int = 1
    """Micro-batches of one weight update, on one replica."""
    sums_micro_batches: bool = False
    """Whether an update takes their sum."""
    replicas: int = 1
    instance: Instance = field(default_factory=Instance)
    """This process among those that run the program together."""
    broadcasts: Sequence[Any] = ()
    layer_uses: Sequence[LayerUse] = ()
    hooks: Sequence[Any] = ()
    """Hooks that the model function asks for."""
    after_loop: Mapping[str, Any] = field(default_factory=dict)
    """What the host fetches after each loop."""
    finals: Mapping[str, Any] = field(default_factory=dict)
    """What the host fetches once at the end, by name of the result."""
    schedule: Schedule | None = None
    """The pipeline's schedule, for a pipeline."""
    placements: Mapping[str, bool] = field(default_factory=dict)
    """Where things of the pipeline live, by the names of a `PipelineRequest`."""
    peak_stash: tuple[int, ...] = ()
    """Most micro-batches that waited at each stage."""
    host_operation: Any = None
    """Runs on the host after the loop."""


@dataclass
class PieceRunner:
    """Runs a program's loop in pieces of about 100 ms and tells who watches."""

    program: EstimatorProgram
    phase: str
    total_steps: int
    ipu_step_us: float = 0.0
    call: ProgramCall | None = None
    """What is told of it; None if nobody wants to know."""
    stopped: bool = False
    steps_done: int = 0
    seconds: float = 0.0
    loops: int = 0
    _unit_seconds: float = field(default=0.0, init=False)
    _sums: dict[str, float] = field(default_factory=dict, init=False)
    _units_done: int = field(default=0, init=False)

    def run(self, session: Any, units: int) -> dict[str, float]:
        """Run iterations; return the mean of every scalar over those done."""
        program, observer = self.program, current_observer()
        keeper = current_keeper() if self.phase == "train" else None
        done = 0
        self.loops += 1
        sums: dict[str, float] = {}
        while done < units:
            if observer is not None and observer.should_stop():
                self.stopped = True
                break
            piece = min(units - done, self._piece(observer is not None))
            left_of_update = self._left_of_update()
            if keeper is not None and keeper.due():
                piece = min(piece, left_of_update)
            start = time.perf_counter()
            values, _ = session.run(
                (program.sums, program.operation), {program.units: piece}
            )
            seconds = time.perf_counter() - start
            self._unit_seconds = seconds / piece
            self.seconds += seconds
            done += piece
            self.steps_done += piece * program.steps_per_unit
            self._add(values, sums, piece)
            if observer is not None:
                observer.progressed(self._progress(seconds, piece))
            if keeper is not None and piece == left_of_update and keeper.due():
                keeper.keep(PartOfEpoch(self.steps_done))
        return {name: value / max(done, 1) for name, value in sums.items()}

    def warm_up(self, session: Any) -> None:
        """Let TensorFlow prepare the program without running an iteration."""
        program = self.program
        session.run((program.sums, program.operation), {program.units: 0})

    def end(self, results: Mapping[str, float] | None = None) -> None:
        """Tell that the call returns, with its results or else the means so far."""
        end_call(self.call, self.means if results is None else results)

    @property
    def means(self) -> dict[str, float]:
        """Scalars of the loop, averaged over the iterations so far."""
        done = max(self._units_done, 1)
        return {name: total / done for name, total in self._sums.items()}

    @property
    def batches_done(self) -> int:
        """Micro-batches that every replica has gone through."""
        return self._units_done * self.program.batches_per_unit

    def _left_of_update(self) -> int:
        """Return the iterations until no weight update is under way, from 1."""
        update = max(1, self.program.accumulation // self.program.batches_per_unit)
        return update - self._units_done % update

    def _piece(self, watched: bool) -> int:
        if not self._unit_seconds:
            return 1
        return max(1, int(piece_s(watched) / self._unit_seconds))

    def _add(self, values: Mapping[str, float], sums: dict[str, float], n: int) -> None:
        self._units_done += n
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + float(value)
            self._sums[name] = self._sums.get(name, 0.0) + float(value)

    def _progress(self, seconds: float, piece: int) -> Progress:
        return Progress(
            self.phase,
            1 if self.phase == "train" else 0,
            self.steps_done,
            self.total_steps,
            self.means,
            seconds * 1e3 / (piece * self.program.batches_per_unit),
            self.ipu_step_us,
            self.call,
        )
