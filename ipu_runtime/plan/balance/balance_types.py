"""What balancing is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.timeline import Clock


class Objective(Enum):
    """What the best partition has least of."""

    STEP_TIME = "time"
    BOTTLENECK = "bottleneck"
    PEAK_MEMORY = "peak memory"
    CROSSING = "bytes crossing"


@dataclass(frozen=True, slots=True)
class BalanceRequest:
    """Layers in topological order, to be cut into stages with one IPU each.

    Times are for one micro-batch, in microseconds.
    """

    forward_us: tuple[float, ...]
    backward_us: tuple[float, ...]
    stages: int
    micro_batches: int
    schedule: ScheduleKind = ScheduleKind.GROUPED
    recomputation: Recomputation = Recomputation.OFF
    recompute_us: tuple[float, ...] = ()
    """Defaults to the forward times."""
    resident_bytes: tuple[float, ...] = ()
    """Weights, optimizer state, accumulators and code of every layer."""
    stash_bytes: tuple[float, ...] = ()
    """Activations of one micro-batch that a layer keeps for its backward pass."""
    working_bytes: tuple[float, ...] = ()
    """Memory that only runs of the layer need; stages take the largest."""
    crossing_bytes: tuple[float, ...] = ()
    """What a cut right after each layer sends on; skip connections included."""
    input_bytes: float = 0.0
    """What enters the first stage for one micro-batch."""
    fixed_bytes: float = 0.0
    """What every IPU holds whatever its layers."""
    capacity_bytes: float | None = None
    locked: Mapping[int, int] = field(default_factory=dict)
    """Stage of layers that must not move, by the layer's index."""
    together: tuple[tuple[int, int], ...] = ()
    """First and last of layers between which no stage may end: they share weights."""
    copy_us: Callable[[float, int], float] | None = None
    """Time of sending bytes to the IPU of a stage; None means no time."""
    objective: Objective = Objective.STEP_TIME
    clock: Clock = Clock.STEP
    offload_activations: bool = False
    """Whether waiting activations live outside the IPU."""
    current: tuple[int, ...] = ()
    """Stages as they are now, to find the single move that helps most."""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.forward_us)

    @property
    def uncut(self) -> tuple[int, ...]:
        """Boundaries that no stage may have, by the layer that follows."""
        spans = (range(first + 1, last + 1) for first, last in self.together)
        return tuple({at for span in spans for at in span})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One partition with its modelled figures."""

    stage_of_layer: tuple[int, ...]
    step_time_us: float
    """Time of one pipeline run: all micro-batches, without the weight update."""
    bottleneck_us: float
    """Largest time of a stage on one micro-batch, its incoming copy included."""
    peak_bytes: float
    crossing_bytes: float
    stage_us: tuple[float, ...]
    stage_bytes: tuple[float, ...]

    def value(self, objective: Objective) -> float:
        """Return what the objective minimises."""
        return {
            Objective.STEP_TIME: self.step_time_us,
            Objective.BOTTLENECK: self.bottleneck_us,
            Objective.PEAK_MEMORY: self.peak_bytes,
            Objective.CROSSING: self.crossing_bytes,
        }[objective]


@dataclass(frozen=True, slots=True)
class Move:
    """A single layer that changes its stage."""

    layer: int
    from_stage: int
    to_stage: int
    gain: float
    """How much of the objective it saves."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that was tried because nothing fits."""

    change: str
    fits: bool
    excess_bytes: float
    step_time_us: float | None = None


@dataclass(frozen=True, slots=True)
class BalanceResult:
    """The best partition, or why there is none."""

    request: BalanceRequest
    best: Candidate | None
    runner_up: Candidate | None = None
    exact: bool = False
    """Whether no partition can be better; else the best that the search found."""
    uniform: Candidate | None = None
    """The split into equal numbers of layers, for comparison."""
    now: Candidate | None = None
    """The partition that the request calls current."""
    time_slack_us: tuple[float, ...] = ()
    """How much longer each stage could take without being the slowest."""
    memory_slack_bytes: tuple[float, ...] = ()
    """Room left on each stage's IPU; empty without a capacity."""
    binding: str = ""
    """What keeps the result from being better."""
    best_move: Move | None = None
    excess_bytes: float = 0.0
    """Smallest memory that is missing when nothing fits."""
    fixes: tuple[Fix, ...] = ()
    problem: str = ""
    """Why no partition exists, when memory is not the reason."""

    @property
    def feasible(self) -> bool:
        """Whether there is a partition that fits."""
        return self.best is not None

    @property
    def stage_of_layer(self) -> tuple[int, ...]:
        """Stages of the best partition; empty when there is none."""
        return self.best.stage_of_layer if self.best else ()

    @property
    def step_time_us(self) -> float:
        """Time of one pipeline run of the best partition."""
        return self.best.step_time_us if self.best else 0.0
