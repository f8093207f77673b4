"""One way to put a model on IPUs, and the experiment that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.experiment.experiment_rules import ELSEWHERE
from workbench.experiment.experiment_spec import ExperimentSpec, Pipeline
from workbench.experiment.topology import topology
from workbench.planning.same_training import same_rate, with_batch_size
from workbench.planning.staged_spec import staged_spec

RECOMPUTE = "allow_recompute"
IO_TILES = "io_tiles.num_io_tiles"
ON_IO_TILES = "io_tiles.place_ops_on_io_tiles"
MATRIX_OPTIONS = ("convolutions.poplar_options", "matmuls.poplar_options")
PARTIALS, PROPORTION = "partialsType", "availableMemoryProportion"


ONCE_PER_UPDATE = (
    "offload_weight_update_variables",
    "replicated_optimizer_state_sharding",
)
"""Fields that move what only weight updates wait for."""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """What decides the time of a layer on one micro-batch."""

    micro_batch: int
    io_tiles: int
    half_partials: bool | None
    """None leaves the experiment's own."""
    proportion: str
    """Of a tile's memory, for matrix products; empty leaves the experiment's own."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Everything that is searched but the cuts between stages."""

    device: DeviceChoice
    ipus: int
    stages: int
    accumulation: int
    schedule: str = "Grouped"
    elsewhere: tuple[str, ...] = ()
    """Fields of the pipeline that move something out of the tiles."""
    recompute: bool = False

    @property
    def accumulates(self) -> bool:
        """Whether gradients are added up before an update."""
        return self.stages > 1 or self.accumulation > 1

    @property
    def streams(self) -> bool:
        """Whether every micro-batch waits for what is elsewhere."""
        return any(name not in ONCE_PER_UPDATE for name in self.elsewhere)

    @property
    def overlaps(self) -> bool:
        """Whether stages work at the same time."""
        return self.stages > 1 and self.schedule != ScheduleKind.SEQUENTIAL.value

    @property
    def memory_key(self) -> tuple[object, ...]:
        """What the memory of an IPU depends on, besides the device and the cuts."""
        settings = self.stages, self.schedule, self.recompute, self.elsewhere
        waiting = min(self.accumulation, 2 * self.stages)
        return *settings, self.accumulates, waiting, self.replicas > 1

    def moves(self, field: str) -> bool:
        """Tell whether a field of the pipeline is on."""
        return field in self.elsewhere

    @property
    def elsewhere_text(self) -> str:
        """What is not on the tiles, in words."""
        words = [what for name, what in ELSEWHERE.items() if self.moves(name)]
        return " and ".join([", ".join(words[:-1]), *words[-1:]][not words[:-1] :])

    @property
    def ipus_per_replica(self) -> int:
        """IPUs that a copy of the model reserves."""
        return 1 << (self.stages - 1).bit_length()

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.ipus // self.ipus_per_replica

    @property
    def update_samples(self) -> int:
        """Samples of one weight update."""
        return self.device.micro_batch * self.accumulation * self.replicas


def own_choice(spec: ExperimentSpec) -> Choice:
    """Return what an experiment has chosen as it is."""
    ipu, stages = spec.ipu, max(spec.pipeline.stages, default=0) + 1
    half = spec.model.dtype == "float16"
    partials = ipu.get(MATRIX_OPTIONS[0], {}).get(PARTIALS, "float") == "half"
    return Choice(
        DeviceChoice(
            spec.data.batch_size, ipu.get(IO_TILES, 0), partials if half else None, ""
        ),
        topology(spec).ipus or 1,
        stages,
        1 if spec.train.test_only else spec.execution.gradient_accumulation,
        spec.pipeline.schedule,
        own_elsewhere(spec.pipeline) if stages > 1 else (),
        bool(ipu.get(RECOMPUTE, False)),
    )


def own_elsewhere(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the fields of a pipeline that move something out of the tiles."""
    return tuple(name for name in PLACEMENTS if getattr(pipeline, name))


def with_device(spec: ExperimentSpec, device: DeviceChoice) -> ExperimentSpec:
    """Return the experiment with other settings of the device."""
    ipu: dict[str, Any] = dict(spec.ipu)
    if device.io_tiles != ipu.get(IO_TILES, 0):
        ipu |= {IO_TILES: device.io_tiles, ON_IO_TILES: device.io_tiles > 0}
    for group in MATRIX_OPTIONS:
        options = _options(ipu.get(group, {}), device)
        if options != ipu.get(group, {}):
            ipu[group] = options
    return with_batch_size(replace(spec, ipu=ipu), device.micro_batch)


def with_choice(
    spec: ExperimentSpec, choice: Choice, cuts: tuple[int, ...] = ()
) -> ExperimentSpec:
    """Return the experiment as chosen; `cuts` is the stage of every layer."""
    before, spec = spec, with_device(spec, choice.device)
    ipu = {**spec.ipu, "auto_select_ipus": choice.ipus}
    if choice.recompute != spec.ipu.get(RECOMPUTE, False):
        ipu[RECOMPUTE] = choice.recompute
    placed: dict[str, Any] = {name: choice.moves(name) for name in PLACEMENTS}
    pipeline = replace(
        spec.pipeline,
        schedule=choice.schedule,
        recomputation="Auto",
        device_mapping=(),
        **placed,
    )
    accumulation = choice.accumulation
    if spec.train.test_only:
        accumulation = spec.execution.gradient_accumulation
    execution = replace(
        spec.execution,
        gradient_accumulation=accumulation,
        # The host starts an execution; nothing is gained by shorter ones.
        steps_per_execution="epoch",
    )
    chosen = replace(spec, ipu=ipu, pipeline=pipeline, execution=execution)
    return same_rate(before, staged_spec(chosen, cuts))


def _options(now: Mapping[str, Any], device: DeviceChoice) -> dict[str, Any]:
    options = dict(now)
    if device.half_partials is not None:
        options[PARTIALS] = "half" if device.half_partials else "float"
    if device.proportion:
        options[PROPORTION] = device.proportion
    return options
