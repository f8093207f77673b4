"""How an extended model is cut into stages, or why that is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_runtime.engine.pipeline.pipeline_modes import (
    PipelineSchedule,
    RecomputationMode,
    resolve_recomputation,
)
from ipu_runtime.engine.reading.model_graph import Call, ModelGraph
from ipu_runtime.engine.session.model_options import ModelOptions
from ipu_runtime.plan.placements import PLACEMENTS, requested
from ipu_runtime.plan.plan import PipelineRequest
from ipu_runtime.plan.schedule.building import (
    build_schedule,
    overlap_length,
    recomputation_allowed,
)
from ipu_runtime.plan.schedule.schedule import Recomputation, Schedule, ScheduleKind
from ipu_runtime.system.device import Device

_KNOWN_ARGUMENTS = frozenset(
    {
        "gradient_accumulation_dtype",
        "gradient_accumulation_for_captured_grads",
        "pipeline_schedule",
        "recomputation_mode",
        "forward_propagation_stages_poplar_options",
        "backward_propagation_stages_poplar_options",
        "weight_update_poplar_options",
        *PLACEMENTS,
        "continuous_weight_updates",
        "accumulate_outfeed_dtype",
        "name",
    }
)


@dataclass(frozen=True)
class Cut:
    """A model's layer calls in stages, and how the stages work together."""

    stages: tuple[tuple[Call, ...], ...]
    kind: ScheduleKind
    recomputation: Recomputation
    device_mapping: tuple[int, ...]
    stage_of_call: tuple[int, ...]
    io_tiles: bool
    placements: Mapping[str, bool]
    """Where things live, by the names of a `PipelineRequest`."""
    accumulator_dtype: Any
    accumulates_captured: bool
    """Whether captured gradients are accumulated as those of the weights are."""

    def schedule(self, micro_batches: int, training: bool) -> Schedule:
        """Return one pipeline run."""
        return build_schedule(
            self.kind,
            len(self.stages),
            micro_batches,
            training=training,
            recomputation=self.recomputation,
            device_mapping=self.device_mapping,
        )

    def overlap(self, training: bool) -> int:
        """Return the number that micro-batches come in multiples of."""
        return overlap_length(self.kind, self.device_mapping, training)

    def request(self) -> PipelineRequest:
        """Return the cut as the plan wants it."""
        return PipelineRequest(
            self.stage_of_call,
            self.kind,
            self.recomputation,
            self.device_mapping,
            **self.placements,
        )

    def check_count(self, count: int, training: bool) -> None:
        """Raise for a number of micro-batches that the device refuses."""
        overlap = self.overlap(training)
        names = (
            "it comes from `gradient_accumulation_count`, "
            "`gradient_accumulation_steps_per_replica` or `steps_per_execution`"
        )
        if self.io_tiles and self.kind is ScheduleKind.GROUPED:
            if count < overlap + 2:
                raise tf.errors.FailedPreconditionError(
                    None,
                    None,
                    f"The number of iterations of the pipeline must be at least "
                    f"{overlap + 2} with I/O tiles, but it is {count}; {names}.",
                )
        elif count % overlap:
            nearest = max(overlap, round(count / overlap) * overlap)
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"The number of iterations of the pipeline must be a multiple of "
                f"{overlap}, but it is {count}; {names}. The nearest is {nearest}.",
            )


def moving_statistics(cut: Cut) -> list[str]:
    """Return the layers whose moving statistics a real pipeline would not update."""
    return [
        call.operation.name
        for calls in cut.stages
        for call in calls
        if isinstance(call.operation, keras.layers.BatchNormalization)
        and 0 < call.operation.momentum < 1
    ]


def check_device(options: ModelOptions, device: Device) -> int:
    """Return the number of replicas; raise if not even one fits."""
    shards = options.shard_count
    replicas = device.replicas(shards)
    if replicas < 1:
        needed = 1 << (shards - 1).bit_length()
        raise ValueError(
            f"Current device has {device.ipus} IPUs attached, however the current "
            f"model requires a multiple of {needed} IPUs."
        )
    return replicas


def make_cut(
    graph: ModelGraph, options: ModelOptions, device: Device, training: bool
) -> Cut:
    """Cut the layer calls into their stages; raise what the device would raise."""
    arguments = options.pipelining_kwargs
    for name in sorted(set(arguments) - _KNOWN_ARGUMENTS):
        raise TypeError(f"pipeline() got an unexpected keyword argument {name!r}")
    if arguments.get("continuous_weight_updates"):
        raise NotImplementedError("Continuous weight updates are not available.")
    schedule, mode = _schedule_and_mode(arguments)
    stage_of = _stage_of_calls(graph, options)
    count = max(stage_of) + 1
    stages = tuple(
        tuple(
            call for call, of in zip(graph.calls, stage_of, strict=True) if of == stage
        )
        for stage in range(count)
    )
    missing = [str(stage) for stage, calls in enumerate(stages) if not calls]
    if missing:
        raise RuntimeError(
            "All stages in a pipeline must have at least one layer assigned. No layer "
            f"is assigned to stage {', '.join(missing)}."
        )
    if count < 2:
        raise ValueError("Pipeline requires at least two computational stages.")
    mapping = options.device_mapping or tuple(range(count))
    _check_mapping(mapping, count, schedule.kind, training)
    _check_shared_weights(graph.calls, stage_of, mapping)
    recomputation = resolve_recomputation(
        bool(device.config.get("allow_recompute", False)), mode, schedule
    )
    if not recomputation_allowed(schedule.kind, recomputation):
        raise tf.errors.UnimplementedError(
            None,
            None,
            f"{recomputation.value} is not available with the {schedule.name} "
            "schedule; RecomputationMode.Auto chooses one that is.",
        )
    return Cut(
        stages=stages,
        kind=schedule.kind,
        recomputation=recomputation,
        device_mapping=mapping,
        stage_of_call=stage_of,
        io_tiles=bool(device.config.get("io_tiles.num_io_tiles", 0)),
        placements=requested(arguments),
        accumulator_dtype=arguments.get("gradient_accumulation_dtype"),
        accumulates_captured=bool(
            arguments.get("gradient_accumulation_for_captured_grads")
        ),
    )


def _schedule_and_mode(
    arguments: dict[str, Any],
) -> tuple[PipelineSchedule, RecomputationMode | None]:
    schedule = arguments.get("pipeline_schedule")
    if schedule is None:
        schedule = PipelineSchedule.Grouped
    if not isinstance(schedule, PipelineSchedule):
        raise TypeError(
            f"pipeline_schedule must be a PipelineSchedule, not {schedule!r}."
        )
    mode = arguments.get("recomputation_mode")
    if mode is not None and not isinstance(mode, RecomputationMode):
        raise TypeError(
            f"recomputation_mode must be a RecomputationMode, not {mode!r}."
        )
    return schedule, mode


def _stage_of_calls(graph: ModelGraph, options: ModelOptions) -> tuple[int, ...]:
    stage_of_key = dict(options.stages or ())
    try:
        return tuple(stage_of_key[call.key] for call in graph.calls)
    except KeyError as error:
        raise RuntimeError(
            f"The pipeline stages of the model are no longer valid: layer call "
            f"{error} has none. Set the pipeline stage assignment again."
        ) from None


def _check_mapping(
    mapping: tuple[int, ...], stages: int, kind: ScheduleKind, training: bool
) -> None:
    if len(mapping) != stages:
        raise ValueError(
            f"Each stage must be mapped to an IPU: {stages} stages, but device_mapping "
            f"has {len(mapping)} entries ({list(mapping)})."
        )
    if kind is ScheduleKind.INTERLEAVED and training and len(set(mapping)) < stages:
        raise NotImplementedError(
            "The Interleaved schedule cannot train with several stages on one IPU: "
            f"device_mapping is {list(mapping)}. Use Grouped or Sequential."
        )


def _check_shared_weights(
    calls: tuple[Call, ...], stage_of: tuple[int, ...], mapping: tuple[int, ...]
) -> None:
    ipu_of: dict[int, int] = {}
    for call, stage in zip(calls, stage_of, strict=True):
        used = {
            ipu_of.setdefault(id(weight), mapping[stage])
            for weight in getattr(call.operation, "weights", ())
        }
        for ipu in used - {mapping[stage]}:
            raise tf.errors.UnimplementedError(
                None,
                None,
                f"The weights of {call.operation.name} are used on IPUs {ipu} and "
                f"{mapping[stage]}; an input can only be used by pipeline stages on "
                "the same IPU.",
            )
