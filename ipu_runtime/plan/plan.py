"""What a plan says: times, memory and problems of a request."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from ipu_runtime.plan.costs.op_costs import OpCost
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import Recomputation, Schedule


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """Modelled cost of one layer call on one micro-batch."""

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    stage: int
    forward_us: float
    backward_us: float
    update_us: float
    forward_cycles: Mapping[str, float]
    """Parts of the forward time: compute, exchange, sync."""
    backward_cycles: Mapping[str, float]
    memory_bytes: int
    """Weights, optimizer state and kept activations of one micro-batch."""
    crossing_bytes: int
    """Bytes that a cut right after this layer would send to the next stage."""
    forward_ops: tuple[OpCost, ...] = ()
    """What the forward time is made of."""
    backward_ops: tuple[OpCost, ...] = ()
    update_ops: tuple[OpCost, ...] = ()
    resident_bytes: int = 0
    """Weights, optimizer state, accumulators and code."""
    stash_bytes: int = 0
    """What its backward pass needs from one micro-batch."""
    working_bytes: int = 0
    """Tensors that it touches and temporaries, only while it runs."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Modelled cost of one pipeline stage; a plain model has one stage."""

    index: int
    ipu: int
    layers: tuple[str, ...]
    forward_us: float
    backward_us: float
    recompute_us: float
    update_us: float
    fifo_depth: int
    stash_bytes: int

    @property
    def busy_us(self) -> float:
        """Time that one micro-batch takes of it, recomputation included."""
        return self.forward_us + self.backward_us + self.recompute_us


ALWAYS_LIVE = ("weights", "optimizer", "accumulators", "stash", "code", "io")
"""Categories of what stays where it is during a whole step."""


@dataclass(frozen=True, slots=True)
class IpuMemory:
    """Modelled memory of one IPU of a replica."""

    ipu: int
    by_category: Mapping[str, int]
    """weights, optimizer, accumulators, stash, activations, temporaries, code, io."""
    used_bytes: int
    """Sum over its tiles."""
    capacity_bytes: int
    """Of all its tiles."""
    fullest_tile_bytes: int
    tile_capacity_bytes: int
    tiles: int = 0
    io_tiles: int = 0
    """Tiles that only hold input and output; the figures are of the others."""

    @property
    def tile_bytes(self) -> tuple[int, ...]:
        """Modelled bytes of every tile, fullest first: a straight line to the mean."""
        if self.tiles < 2:
            return (self.fullest_tile_bytes,) * self.tiles
        mean = self.used_bytes / self.tiles
        lowest = max(2 * mean - self.fullest_tile_bytes, 0.0)
        fall = (self.fullest_tile_bytes - lowest) / (self.tiles - 1)
        return tuple(
            int(self.fullest_tile_bytes - fall * tile) for tile in range(self.tiles)
        )

    @property
    def always_live_bytes(self) -> int:
        """Of the sum over its tiles, what is there at every moment."""
        away = self.by_category["io"] if self.io_tiles else 0
        return sum(self.by_category[name] for name in ALWAYS_LIVE) - away

    @property
    def excess_bytes(self) -> int:
        """Bytes that would have to go for the fullest tile to have room."""
        over = max(self.fullest_tile_bytes - self.tile_capacity_bytes, 0)
        return int(over * self.used_bytes / max(self.fullest_tile_bytes, 1))

    @property
    def memory_fraction(self) -> float:
        """How full the fullest tile is."""
        return self.fullest_tile_bytes / max(self.tile_capacity_bytes, 1)

    @property
    def fits(self) -> bool:
        """Whether the fullest tile has room."""
        return self.fullest_tile_bytes <= self.tile_capacity_bytes


@dataclass(frozen=True, slots=True)
class StepTime:
    """Modelled time of one step, in its parts: every replica takes one batch.

    In a pipeline, compute, exchange, sync and infeed are means over its IPUs, and
    waiting is what remains of the time that the slowest IPU needs, copies apart.
    """

    compute_us: float
    exchange_us: float
    sync_us: float
    """Superstep overhead: counted supersteps times their fixed cost."""
    links_us: float
    """Copies between IPUs and the all-reduce over replicas."""
    waiting_us: float
    """Time that IPUs of a pipeline wait for each other: bubble, unequal stages."""
    update_us: float
    infeed_us: float
    launch_us: float
    """The host's share of starting an execution, per step."""

    @property
    def host_us(self) -> float:
        """Time in which the host is waited for."""
        return self.infeed_us + self.launch_us

    @property
    def total_us(self) -> float:
        """Sum of all parts."""
        return (
            self.compute_us
            + self.exchange_us
            + self.sync_us
            + self.links_us
            + self.waiting_us
            + self.update_us
            + self.host_us
        )


@functools.lru_cache(maxsize=16)
def _pipeline_schedule(
    pipeline: PipelineRequest, micro_batches: int, training: bool
) -> Schedule:
    return build_schedule(
        pipeline.schedule,
        pipeline.stages,
        micro_batches,
        training=training,
        recomputation=pipeline.recomputation if training else Recomputation.OFF,
        device_mapping=pipeline.device_mapping,
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """The modelled effect of an experiment on the device."""

    request: PlanRequest
    problems: tuple[Problem, ...]
    replicas: int = 0
    ipus: int = 0
    """IPUs that are reserved, idle ones included."""
    ipus_per_replica: int = 1
    layers: tuple[LayerPlan, ...] = ()
    stages: tuple[StagePlan, ...] = ()
    memory: tuple[IpuMemory, ...] = ()
    step: StepTime | None = None
    steps_per_epoch: int = 0
    """Steps of one replica."""
    steps_per_execution: int = 0
    """After lowering it to what the epoch has; those of a steady state where samples
    are made up."""
    executions_per_epoch: int = 0
    updates_per_epoch: int = 0
    batches_dropped: int = 0
    compile_s: float = 0.0
    copy_us: float = 0.0
    """Copies between IPUs in one program step of a pipeline."""
    run_us: float = 0.0
    """One pipeline run, or one step of a plain model, without the weight update."""
    update_us: float = 0.0
    """One weight update, loop control of a pipeline included."""
    all_reduce_us: float = 0.0
    """Gradients over replicas, once per weight update."""
    hosts: int = 1
    """Machines that feed these IPUs."""
    ipus_per_instance: int = 0
    """IPUs that each process reserves."""
    feed_us: float = 0.0
    """Time in which a host sends what its replicas take in a step."""
    broadcast_us: float = 0.0
    """Weights from the first host to the others, once before training."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """The constants behind the figures, by name."""
    not_modelled: str = ""
    """Why no device has figures for it, as on a CPU; empty where one has."""

    @property
    def schedule(self) -> Schedule | None:
        """The pipeline's schedule; None for a model that is not pipelined.

        It is built when asked for: figures do not need it, and it can be large.
        """
        pipeline = self.request.pipeline
        if pipeline is None or not self.stages:
            return None
        training = self.request.training
        accumulation = self.request.gradient_accumulation
        return _pipeline_schedule(
            pipeline, accumulation if training else self.steps_per_execution, training
        )

    def _repr_html_(self) -> str:
        """Return the plan for a cell of a notebook, which calls this."""
        # Documents of plans lie above plans, and only notebooks ask for them here.
        from ipu_runtime.reports.document_html import notebook_html
        from ipu_runtime.reports.plan_document import plan_document

        return notebook_html(plan_document(self, "Plan"))

    @property
    def bubble_fraction(self) -> float:
        """Share of the schedule's cells in which an IPU has nothing to do."""
        return self.schedule.bubble_fraction if self.schedule else 0.0

    @property
    def waiting_fraction(self) -> float:
        """Share of a step in which IPUs of a pipeline wait for each other."""
        if self.step is None or not self.ipu_step_us:
            return 0.0
        return self.step.waiting_us / self.ipu_step_us

    @property
    def stage_imbalance(self) -> float:
        """Time of the longest stage over the mean of all; 1 where they are even."""
        times = [stage.busy_us for stage in self.stages]
        total = sum(times)
        return max(times) * len(times) / total if total else 1.0

    @property
    def ok(self) -> bool:
        """Whether the run can start on the modelled device."""
        return all(item.severity is Severity.WARNING for item in self.problems)

    @property
    def ipu_step_us(self) -> float:
        """Modelled time of one step, in which every replica takes one batch."""
        return self.step.total_us if self.step else 0.0

    @property
    def ipu_us_per_batch(self) -> float:
        """Modelled time per batch of data, over all replicas."""
        return self.ipu_step_us / self.replicas if self.replicas else 0.0

    @property
    def memory_fraction(self) -> float:
        """How full the fullest tile of any IPU is; it decides if a program fits."""
        return max((item.memory_fraction for item in self.memory), default=0.0)

    @property
    def sum_over_tiles_bytes(self) -> int:
        """Bytes on all tiles of the IPU that has most."""
        return max((item.used_bytes for item in self.memory), default=0)

    @property
    def epoch_us(self) -> float:
        """Modelled time of an epoch: its steps, and the start of its executions."""
        if self.step is None:
            return 0.0
        started_us = self.step.launch_us * self.steps_per_execution
        steps_us = self.steps_per_epoch * (self.ipu_step_us - self.step.launch_us)
        return steps_us + self.executions_per_epoch * started_us

    @property
    def samples_per_second(self) -> float:
        """Modelled throughput."""
        if not self.ipu_us_per_batch:
            return 0.0
        return self.request.batch_size * 1e6 / self.ipu_us_per_batch
