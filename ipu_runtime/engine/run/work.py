"""What the epochs of a call run, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.build.programs.metric_results import Logs
from ipu_runtime.engine.build.programs.program_set import Program
from ipu_runtime.engine.build.replicas.replica_state import ReplicaState
from ipu_runtime.engine.describe.step_count import StepCount
from ipu_runtime.engine.watch.observer import ProgramCall
from ipu_runtime.system.instances import Instance


@dataclass
class Work:
    """A program with what is needed to run epochs with it."""

    phase: str
    """`train`, `test` or `predict`."""
    program: Program
    count: StepCount
    logs: Callable[[], Logs]
    """Reads the metrics as they stand."""
    before_execution: Callable[[], None]
    after_execution: Callable[[], None]
    joined: bool
    """Whether executions may run into each other, because nobody looks between."""
    stop_training: Callable[[], bool]
    collected: Callable[[list[Logs]], None]
    """Told the metric values after every batch, where they are collected."""
    update: int
    """Batches of one weight update, over all replicas."""
    state: tuple[ReplicaState, ...]
    """What an epoch hands on from piece to piece besides weights."""
    instance: Instance = field(default_factory=Instance)
    """This process among those that train together."""
    done: int = 0
    """Batches that were run, over all replicas."""
    seconds: float = 0.0
    """Measured time of all pieces but the first, which compiles."""
    batches: int = 0
    """Batches of those pieces."""
    call: ProgramCall | None = None
    """What is told of it; None if nobody wants to know."""

    @property
    def host_step_ms(self) -> float:
        """Measured time of a step."""
        steps = self.batches / self.count.replicas
        return self.seconds * 1e3 / steps if steps else 0.0


@dataclass
class EpochOutcome:
    """What an epoch has come to."""

    logs: Logs
    stopped: bool = False
    """Whether somebody outside has asked to stop."""
    exhausted: bool = False
    """Whether a data set of unknown size has ended too early."""
    outputs: list[Any] = field(default_factory=list)
