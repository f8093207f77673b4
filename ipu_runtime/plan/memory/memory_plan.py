"""Memory of every IPU of a replica, by category, against what its tiles have."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from ipu_runtime.plan.costs.layer_costs import LayerWork
from ipu_runtime.plan.costs.op_costs import OpCost
from ipu_runtime.plan.device_options import DeviceOptions
from ipu_runtime.plan.hardware import HardwareTable
from ipu_runtime.plan.memory.code_size import StageCode, ipu_code
from ipu_runtime.plan.memory.liveness import StageTensors, stage_tensors, stash_bytes
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.placements import Residency
from ipu_runtime.plan.plan import IpuMemory

CATEGORIES = (
    "weights",
    "optimizer",
    "accumulators",
    "stash",
    "activations",
    "temporaries",
    "code",
    "io",
)


class MemoryRequest(NamedTuple):
    """Everything that the memory of a replica depends on."""

    work: LayerWork
    options: DeviceOptions
    stage_of_layer: tuple[int, ...]
    mapping: tuple[int, ...]
    """IPU of every stage."""
    fifo_depth: tuple[int, ...]
    """Micro-batches that wait at every stage, never more than there are."""
    recomputes: bool
    accumulates: bool
    offloads: bool
    infeed: OpCost
    streamed_bytes: int
    boundaries: tuple[tuple[int, int], ...]
    """Bytes from each stage to the next, and back."""
    replicas: int
    checkpointed: bool
    """Whether recomputation goes from one checkpoint to the next."""
    residency: Residency

    def merged_bytes(self, ipu: int) -> int:
        """Return what merged sums over replicas fill; one alone sums nothing."""
        if self.replicas < 2:
            return 0
        _, trained = stage_weights(self.work.model, self.stage_of_layer)
        own = (trained[at] for at, on in enumerate(self.mapping) if on == ipu)
        return min(self.options.sum_buffer_bytes, sum(own))


class MemoryPlan(NamedTuple):
    """The memory of the IPUs, and what else follows from the walk."""

    ipus: tuple[IpuMemory, ...]
    tensors: tuple[StageTensors, ...]
    """Of every stage."""
    stash_bytes: tuple[int, ...]
    """Of every stage, per waiting micro-batch."""
    code: tuple[StageCode, ...]
    """Of every IPU."""


def plan_memory(request: MemoryRequest, table: HardwareTable) -> MemoryPlan:
    """Work out the memory of every IPU that has a stage."""
    work, stage_of_layer = request.work, request.stage_of_layer
    tensors = stage_tensors(work, stage_of_layer, request.checkpointed)
    stash = stash_bytes(tensors, request.fifo_depth, request.recomputes)
    weights, trained = stage_weights(work.model, stage_of_layer)
    largest = largest_layers(work.model, stage_of_layer)
    slots = work.optimizer.slots if work.cost.training else 0
    residency = request.residency
    scale = table.values["live_scale"]
    memories, codes = [], []
    for ipu in sorted(set(request.mapping)):
        stages = [stage for stage, on in enumerate(request.mapping) if on == ipu]
        code = ipu_code(
            work,
            stage_of_layer,
            frozenset(stages),
            request.accumulates,
            request.infeed if 0 in stages else None,
            table,
            request.options.outlining,
        )
        codes.append(code)
        own_trained = sum(trained[stage] for stage in stages)
        live, temporaries = _working_set([tensors[stage] for stage in stages])
        summed = request.merged_bytes(ipu)
        if request.accumulates and summed > live + temporaries:
            # Gradients are merged in the weight update, which has no activations.
            live, temporaries = 0, summed
        waiting = sum(stash[stage] * request.fifo_depth[stage] for stage in stages)
        categories = {
            "weights": int(residency.weights * sum(weights[stage] for stage in stages))
            + residency.gathers * max(largest[stage].weights for stage in stages),
            "optimizer": slots * own_trained,
            "accumulators": request.accumulates
            * (
                own_trained
                if residency.accumulators
                else max(largest[stage].trained for stage in stages)
            ),
            "stash": 0 if request.offloads else waiting,
            "activations": int(live * scale),
            "temporaries": int(temporaries * scale),
            "code": code.code_bytes,
            "io": _io_bytes(request, stages, table.values)
            + (0 if request.accumulates else summed),
        }
        memories.append(_memory(ipu, categories, code, request, table))
    return MemoryPlan(tuple(memories), tensors, stash, tuple(codes))


@functools.lru_cache(maxsize=512)
def stage_weights(
    model: ModelSpec, stage_of_layer: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return bytes of all and of trained weights, per stage."""
    stages = max(stage_of_layer) + 1
    weights, trained = [0] * stages, [0] * stages
    for layer, stage in zip(model.stage_layers, stage_of_layer, strict=True):
        weights[stage] += layer.parameters * model.weight_bytes
        trained[stage] += layer.trained * model.weight_bytes
    return tuple(weights), tuple(trained)


class LargestLayer(NamedTuple):
    """The most that a layer of a stage has, in bytes."""

    weights: int
    trained: int


@functools.lru_cache(maxsize=512)
def largest_layers(
    model: ModelSpec, stage_of_layer: tuple[int, ...]
) -> tuple[LargestLayer, ...]:
    """Return the largest weights of every stage: what is there for one layer's run."""
    weights, trained = ([0] * (max(stage_of_layer) + 1) for _ in range(2))
    for layer, stage in zip(model.stage_layers, stage_of_layer, strict=True):
        weights[stage] = max(weights[stage], layer.parameters * model.weight_bytes)
        trained[stage] = max(trained[stage], layer.trained * model.weight_bytes)
    return tuple(map(LargestLayer, weights, trained))


def _working_set(stages: list[StageTensors]) -> tuple[int, int]:
    """Return live tensors and temporaries of stages that take turns on an IPU."""
    fullest = max(
        stages,
        key=lambda own: own.live_bytes + own.temporary_bytes - own.kept_bytes,
    )
    others = sum(own.kept_bytes for own in stages) - fullest.kept_bytes
    return fullest.live_bytes + others, fullest.temporary_bytes


def _io_bytes(
    request: MemoryRequest,
    stages: list[int],
    constants: Mapping[str, float],
) -> int:
    """Count stream buffers and copy buffers."""
    total = 0
    if 0 in stages:
        total += int(constants["stream_buffers"] * request.streamed_bytes)
    for stage, (there, back) in enumerate(request.boundaries):
        # A boundary inside one IPU needs no copy.
        if request.mapping[stage] != request.mapping[stage + 1]:
            total += (there + back) * ((stage in stages) + (stage + 1 in stages))
    return total


def _memory(
    ipu: int,
    categories: dict[str, int],
    code: StageCode,
    request: MemoryRequest,
    table: HardwareTable,
) -> IpuMemory:
    options, values = request.options, table.values
    on_io_tiles = categories["io"] if options.io_tiles else 0
    used = sum(categories.values()) - on_io_tiles
    imbalance = values["imbalance_conv" if code.convolves else "imbalance_matmul"]
    tiles = options.costing.tiles
    return IpuMemory(
        ipu=ipu,
        by_category=categories,
        used_bytes=used,
        capacity_bytes=tiles * options.ipu.tile_bytes,
        fullest_tile_bytes=int(used / tiles * imbalance),
        tile_capacity_bytes=options.ipu.tile_bytes,
        tiles=tiles,
        io_tiles=options.io_tiles,
    )
