"""What a plan is asked: everything that its figures depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.schedule.building import default_mapping
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind


def optimizer_name(spelled: str) -> str:
    """Return the one name that an optimizer has here, whatever spells it.

    Classes of Keras (`RMSprop`) and TensorFlow 1 (`GradientDescentOptimizer`), those
    of the IPU (`AdamIpuOptimizer`), and names that Keras makes of its classes for
    variables (`rm_sprop`).
    """
    name = spelled.lower().replace("_", "")
    name = name.removesuffix("optimizer").removesuffix("ipu")
    return "sgd" if name == "gradientdescent" else name


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """How a model is cut into stages."""

    stage_of_layer: tuple[int, ...]
    """Stage of every layer of `ModelSpec.stage_layers`."""
    schedule: ScheduleKind = ScheduleKind.GROUPED
    recomputation: Recomputation = Recomputation.OFF
    device_mapping: tuple[int, ...] = ()
    """IPU of every stage; empty means one IPU per stage, in order."""
    offload_activations: bool = False
    offload_optimizer_state: bool = False
    """Whether what only the weight update needs lives in streaming memory."""
    shard_optimizer_state: bool = False
    """Whether each replica holds its share of what is offloaded."""
    offload_accumulators: bool = False
    """Whether sums of gradients live in streaming memory between micro-batches."""
    shard_weights: bool = False
    """Whether each replica holds its share of the weights, and gathers the rest."""
    offload_weights: bool = False
    """Whether these shares live in streaming memory; others never do."""

    def __post_init__(self) -> None:
        # The default is the default, whether somebody wrote it down or not.
        mapping, stages = self.device_mapping, self.stages
        if len(mapping) == stages and mapping == default_mapping(self.schedule, stages):
            object.__setattr__(self, "device_mapping", ())

    @property
    def stages(self) -> int:
        """Number of stages that the highest assigned index implies."""
        return max(self.stage_of_layer, default=-1) + 1


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Everything that a plan depends on; no data, no TensorFlow."""

    model: ModelSpec
    batch_size: int
    batches: int
    """Batches of one epoch, over all replicas."""
    label_values: int = 1
    """Values of one sample's target that are streamed with it."""
    steps_per_execution: int = 1
    gradient_accumulation: int = 1
    sums_micro_batches: bool = False
    """Whether an update takes the sum of its micro-batches, not their mean."""
    sums_replicas: bool = False
    """The same of replicas."""
    learning_rate: float = 0.0
    """0 if it is not known, or changes while training."""
    optimizer: str = "sgd"
    """As the hardware table names it, however it was spelled."""
    training: bool = True
    api: str = "ipu_strategy"
    """Who runs it: the loops of `ipu_estimator` and `ipu_pipeline_estimator` follow
    other rules than the executions of a Keras model."""
    ipus: int = 1
    """IPUs of the device, shared out among replicas."""
    system: str = "M2000"
    """Name of a system in the hardware table."""
    pipeline: PipelineRequest | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    """IPUConfig fields that differ from their default, by dotted path."""
    hardware_file: str = ""
    """TOML file that adds to the hardware table; empty means none."""
    steady: bool = False
    """Whether executions take as many steps as a steady state: samples are made up, and
    how many of them must not matter."""
    instances: int = 1
    """Processes that the replicas are shared out among."""
    hosts: int = 0
    """Machines that these processes are spread over; 0 is what the system is sold with
    for its IPUs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", optimizer_name(self.optimizer))

    @property
    def stage_of_layer(self) -> tuple[int, ...]:
        """Stage of every layer; a model that is not pipelined is one stage."""
        if self.pipeline is not None:
            return self.pipeline.stage_of_layer
        return (0,) * len(self.model.stage_layers)
