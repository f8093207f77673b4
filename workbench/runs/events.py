"""What happens in a run, in the order in which it happens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class RunStatus(Enum):
    """How a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"
    """Its process is gone without having ended it."""
    DAMAGED = "damaged"
    """Its record cannot be read, or holds what no record does."""

    @property
    def live(self) -> bool:
        """Whether the run is not over."""
        return self in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run has a record and begins."""

    run_id: str
    preset: str
    spec: dict[str, Any]
    """The experiment as nested tables, as in its TOML file."""


@dataclass(frozen=True, slots=True)
class Compiling:
    """Something slow before the first step: loading, building, compiling."""

    what: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program is ready."""

    program: str
    seconds: float
    """Measured here."""
    ipu_compile_s: float
    """Modelled for an IPU."""
    executor: str = ""
    """Which of TensorFlow's executors runs it here, and why; empty if not known."""


class StepTimes:
    """Measured and modelled time of a step, per batch of data and per sample.

    In a step every replica takes one batch. What is not known is 0: how many batches
    an execution of a script's own program moves, the modelled time on a CPU.
    """

    __slots__ = ()
    host_step_ms: float
    ipu_step_us: float
    replicas: int
    batch_size: int

    @property
    def host_ms_per_batch(self) -> float:
        """Measured time per batch of data, over all replicas."""
        return self.host_step_ms / self.replicas if self.replicas else 0.0

    @property
    def ipu_us_per_batch(self) -> float:
        """Modelled time per batch of data, over all replicas."""
        return self.ipu_step_us / self.replicas if self.replicas else 0.0

    @property
    def host_samples_per_second(self) -> float:
        """Measured throughput."""
        ms = self.host_ms_per_batch
        return self.batch_size * 1e3 / ms if ms else 0.0

    @property
    def samples_per_second(self) -> float:
        """Modelled throughput."""
        us = self.ipu_us_per_batch
        return self.batch_size * 1e6 / us if us else 0.0


@dataclass(frozen=True, slots=True)
class Progressed(StepTimes):
    """Some steps of an epoch are done."""

    epoch: int
    step: int
    steps: int
    loss: float
    accuracy: float | None
    host_step_ms: float
    ipu_step_us: float
    call: str = ""
    """Which call of a script it belongs to; empty in an experiment."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Every number that a script's call has, by its own name."""
    replicas: int = 1
    batch_size: int = 0


@dataclass(frozen=True, slots=True)
class EpochEnded(StepTimes):
    """An epoch is done."""

    epoch: int
    loss: float
    accuracy: float | None
    host_step_ms: float
    ipu_step_us: float
    seconds: float
    call: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    replicas: int = 1
    batch_size: int = 0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The trained model was measured on the test data."""

    loss: float
    accuracy: float | None
    call: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A script's `fit`, or another call that runs one program, begins."""

    call: str
    """Kind and number: `fit 1`."""
    kind: str
    name: str
    """Of the model or the function."""
    epochs: int
    steps: int
    """Steps of an epoch; 0 if only the script knows, for programs of its own."""
    plan: str = ""
    """File of the program's plan in the record; empty if it has none."""
    reason: str = ""
    """Why it has none."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call returns."""

    call: str
    seconds: float
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstanceState:
    """How one process of a run stands that trains with others."""

    host: str
    pid: int
    step: int = 0
    """Of its epoch."""
    host_step_ms: float = 0.0
    """Measured there, with the time that it waits for the others."""
    cpu_step_ms: float = 0.0
    """Time of its processors for a step: its own work, and that of a slow host."""
    replicas: int = 1
    """Of all processes: as many batches as a step moves."""

    @property
    def host_ms_per_batch(self) -> float:
        """Measured time per batch of data, over all replicas."""
        return self.host_step_ms / self.replicas

    @property
    def cpu_ms_per_batch(self) -> float:
        """Time of its processors per batch of data, over all replicas."""
        return self.cpu_step_ms / self.replicas


@dataclass(frozen=True, slots=True)
class InstancesSeen:
    """How all processes of a run stand, in their order; told once a second."""

    instances: tuple[InstanceState, ...]


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits because somebody has asked it to."""


@dataclass(frozen=True, slots=True)
class WentOn:
    """The run goes on after a pause."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over."""

    status: RunStatus
    message: str = ""
    """Why, for a run that failed."""
    summary: dict[str, Any] = field(default_factory=dict)


Event = (
    RunStarted
    | Compiling
    | Compiled
    | CallBegan
    | Progressed
    | EpochEnded
    | Evaluated
    | CallEnded
    | InstancesSeen
    | Paused
    | WentOn
    | RunEnded
)
