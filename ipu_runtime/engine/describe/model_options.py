"""How scripts ask: what the option methods of models and pipelines take and store."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from ipu_runtime.plan.schedule.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)


class GradientAccumulationReductionMethod(Enum):
    """What happens to the gradients that are accumulated before a weight update."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @property
    def sums(self) -> bool:
        """Whether micro-batches are summed, not averaged."""
        return self is type(self).SUM

    @classmethod
    def parse(
        cls, reduction_method: GradientAccumulationReductionMethod | str
    ) -> GradientAccumulationReductionMethod:
        """Return the method that a member or its name, in any case, stands for."""
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str):
            member = cls.__members__.get(reduction_method.upper())
            if member is not None:
                return member
        valid = ", ".join(member.name for member in cls)
        raise ValueError(
            f"Cannot parse {reduction_method!r} as a gradient accumulation reduction "
            f"method; valid ones are {valid}, in any case."
        )


class PipelineSchedule(IntEnum):
    """In which order the stages of a pipeline work."""

    Grouped = 0
    Interleaved = 1
    Sequential = 2

    @property
    def kind(self) -> ScheduleKind:
        """The same schedule as the plan names it."""
        return ScheduleKind(self.name)


class RecomputationMode(Enum):
    """How activations are computed again when `allow_recompute` is set."""

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


def resolve_recomputation(
    allow_recompute: bool, mode: RecomputationMode | None, schedule: PipelineSchedule
) -> Recomputation:
    """Return what a pipeline really does; the device raises for the other pairs."""
    if not allow_recompute:
        return Recomputation.OFF
    if mode is None or mode is RecomputationMode.Auto:
        return automatic_recomputation(schedule.kind)
    return Recomputation(mode.name)


LayerCall = tuple[tuple[str, int], ...]
"""A layer call: (layer name, index of the call) from the outermost model inwards.

`(("conv", 0),)` is the first call of layer `conv`; `(("block", 1), ("conv", 0))` is
the first call of `conv` inside the second call of the nested model `block`.
"""


class ReplicatedMetricReductionMethod(Enum):
    """How the replicas' metrics become one value; NONE takes the last replica's."""

    NONE = 1
    LIST = 2
    SUM = 3
    MEAN = 4

    @classmethod
    def parse(
        cls, value: ReplicatedMetricReductionMethod | str
    ) -> ReplicatedMetricReductionMethod:
        """Return the method that a member or its name, in any case, stands for."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value!r} as a replicated metric reduction method; valid "
            f"ones are {', '.join(cls.__members__)}, in any case."
        )


@dataclass
class ModelOptions:
    """Everything that the setters of an extended model have validated and stored."""

    accumulation: int | None = None
    """`gradient_accumulation_steps_per_replica` of a model that is not pipelined."""
    accumulation_kwargs: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the gradient accumulation optimizer."""
    accumulation_method: GradientAccumulationReductionMethod = (
        GradientAccumulationReductionMethod.SUM
    )
    """One value for both kinds of accumulation: the last setter wins."""
    pipeline_accumulation: int | None = None
    """`gradient_accumulation_steps_per_replica` of a pipelined model."""
    device_mapping: tuple[int, ...] | None = None
    accumulate_outfeed: bool = False
    pipelining_kwargs: dict[str, Any] = field(default_factory=dict)
    """`pipeline_schedule`, `recomputation_mode`, `offload_activations`, ..."""
    metric_reduction: ReplicatedMetricReductionMethod = (
        ReplicatedMetricReductionMethod.NONE
    )
    asynchronous_callbacks: bool = False
    infeed_kwargs: dict[str, Any] = field(default_factory=dict)
    outfeed_kwargs: dict[str, Any] = field(default_factory=dict)
    stages: list[tuple[LayerCall, int]] | None = None
    """Stage of every layer call, in execution order; None: not pipelined."""

    @property
    def pipelined(self) -> bool:
        """Whether the layer calls have stages."""
        return self.stages is not None

    @property
    def shard_count(self) -> int:
        """IPUs that one replica's stages are mapped to."""
        if self.stages is None:
            return 1
        if self.device_mapping is not None:
            return max(self.device_mapping) + 1
        return max(stage for _, stage in self.stages) + 1
