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


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch is done."""

    epoch: int
    loss: float
    accuracy: float | None
    host_step_ms: float
    ipu_step_us: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The trained model was measured on the test data."""

    loss: float
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over."""

    status: RunStatus
    message: str = ""
    """Why, for a run that failed."""
    summary: dict[str, Any] = field(default_factory=dict)


Event = (
    RunStarted | Compiling | Compiled | Progressed | EpochEnded | Evaluated | RunEnded
)
