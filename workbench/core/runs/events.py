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


@dataclass(frozen=True, slots=True)
class Progressed:
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


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch is done."""

    epoch: int
    loss: float
    accuracy: float | None
    host_step_ms: float
    ipu_step_us: float
    seconds: float
    call: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)


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
