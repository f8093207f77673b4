"""How an extended model is cut into stages, or why that is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.describe.model_graph import Call, ModelGraph
from ipu_runtime.engine.describe.model_options import (
    ModelOptions,
    PipelineSchedule,
    RecomputationMode,
    resolve_recomputation,
)
from ipu_runtime.plan.placements import PLACEMENTS, requested
from ipu_runtime.plan.request import PipelineRequest
from ipu_runtime.plan.schedule.building import build_schedule, overlap_length
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


def make_cut(graph: ModelGraph, options: ModelOptions, device: Device) -> Cut:
    """Cut the layer calls into their stages; the plan's rules judge the result.

    TypeError or NotImplementedError for options that say nothing.
    """
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
    allowed = bool(device.config.get("allow_recompute", False))
    return Cut(
        stages=stages,
        kind=schedule.kind,
        recomputation=resolve_recomputation(allowed, mode, schedule),
        device_mapping=options.device_mapping or tuple(range(count)),
        stage_of_call=stage_of,
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
