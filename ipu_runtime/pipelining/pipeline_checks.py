"""What a pipeline may be asked for: the rules of `pipelining_ops.pipeline`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.model_options import (
    PipelineSchedule,
    RecomputationMode,
    resolve_recomputation,
)
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_runtime.ops.pipelining_ops import PipelineStageOptions
from ipu_runtime.plan.rules.count_rules import ACCUMULATION, check_positive
from ipu_runtime.plan.rules.pipeline_rules import (
    check_count,
    check_length,
    check_mapping,
    check_recomputation,
    check_stage_count,
    has_io_tiles,
)
from ipu_runtime.plan.schedule.schedule import Recomputation
from ipu_runtime.system.device_state import current_state


def checked_count(count: Any) -> int:
    """Return the micro-batches of a run as a number."""
    if count is None:
        raise ValueError("`gradient_accumulation_count` must be given.")
    if isinstance(count, tf.Tensor):
        static = tf.get_static_value(count)
        if static is None:
            raise NotImplementedError(
                "`gradient_accumulation_count` must be known when the program is "
                "built; a value that is only known at run time is not supported."
            )
        count = int(static)
    name = "gradient_accumulation_count"
    raise_for(
        [
            *check_positive(name, count, ACCUMULATION),
            *check_length(count, ACCUMULATION),
        ]
    )
    return int(count)


def checked_schedule(schedule: Any, serialization: int) -> PipelineSchedule:
    """Return the schedule, or the one that a batch's serialization needs."""
    if schedule is None:
        if serialization > 1:
            return PipelineSchedule.Sequential
        return PipelineSchedule.Grouped
    if not isinstance(schedule, PipelineSchedule):
        raise TypeError(
            f"`pipeline_schedule` must be a PipelineSchedule, but is {schedule!r}."
        )
    if serialization > 1 and schedule is not PipelineSchedule.Sequential:
        raise NotImplementedError(
            "`batch_serialization_iterations` above 1 needs the Sequential schedule, "
            f"but it is {schedule.name}."
        )
    return schedule


def checked_stages(stages: Any) -> list[Callable[..., Any] | list[Any]]:
    """Return the stages as a list."""
    if not isinstance(stages, (list, tuple)):
        raise TypeError(
            f"`computational_stages` must be a list or tuple, but is {stages!r}."
        )
    raise_for(check_stage_count(len(stages)))
    return list(stages)


def checked_mapping(
    mapping: Any,
    stages: int,
    schedule: PipelineSchedule,
    training: bool,
    serialization: int,
) -> tuple[int, ...]:
    """Return the IPU of every stage."""
    if mapping is None:
        return (0,) * stages if serialization > 1 else tuple(range(stages))
    if not isinstance(mapping, (list, tuple)):
        raise TypeError(f"`device_mapping` must be a list or tuple, not {mapping!r}.")
    devices = tuple(
        entry[0] if isinstance(entry, (list, tuple)) else entry for entry in mapping
    )
    if serialization > 1 and len(set(devices)) > 1:
        raise NotImplementedError(
            "`batch_serialization_iterations` above 1 needs all stages on one IPU."
        )
    raise_for(check_mapping(devices, stages, schedule.kind, training))
    return devices


def checked_recomputation(
    mode: Any, schedule: PipelineSchedule, training: bool
) -> Recomputation:
    """Return how activations are recomputed under the current configuration."""
    if mode is not None and not isinstance(mode, RecomputationMode):
        raise TypeError(
            f"`recomputation_mode` must be a RecomputationMode, but is {mode!r}."
        )
    allowed = bool(current_state().options.fields.get("allow_recompute", False))
    resolved = resolve_recomputation(allowed, mode, schedule)
    if training:
        raise_for(check_recomputation(schedule.kind, resolved))
    return resolved


def check_micro_batches(
    count: int, schedule: PipelineSchedule, mapping: Sequence[int], training: bool
) -> None:
    """Raise if the device could not start so many micro-batches evenly."""
    raise_for(
        check_count(
            schedule.kind,
            mapping,
            count,
            training=training,
            io_tiles=has_io_tiles(current_state().options.fields),
            where=ACCUMULATION,
        )
    )


def check_feeds(infeed: Any, outfeed: Any) -> None:
    """Raise if a queue is of the wrong class."""
    if infeed is not None and not isinstance(infeed, IPUInfeedQueue):
        raise TypeError(f"`infeed_queue` must be an IPUInfeedQueue, not {infeed!r}.")
    if outfeed is not None and not isinstance(outfeed, IPUOutfeedQueue):
        raise TypeError(f"`outfeed_queue` must be an IPUOutfeedQueue, not {outfeed!r}.")


def check_outfeed_options(
    outfeed: Any, training: bool, loss: bool, mask: Any, accumulate: bool
) -> None:
    """Raise if the options about results contradict each other."""
    if not training and (loss or mask is not None):
        raise ValueError(
            "`outfeed_loss` and `outfeed_mask` need an `optimizer_function`."
        )
    if loss and mask is not None:
        raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` may be given.")
    if loss and outfeed is None:
        raise ValueError("`outfeed_loss` needs an `outfeed_queue`.")
    if accumulate:
        if outfeed is None:
            raise ValueError("`accumulate_outfeed` needs an `outfeed_queue`.")
        if outfeed.outfeed_mode is not IPUOutfeedMode.ALL:
            raise ValueError("`accumulate_outfeed` needs an outfeed in mode ALL.")


def check_stage_options(name: str, options: Any, stages: int) -> None:
    """Raise if per-stage options are not one object per stage."""
    if options is None:
        return
    if not isinstance(options, (list, tuple)):
        raise TypeError(f"`{name}` must be a list or tuple, but is {options!r}.")
    for option in options:
        if not isinstance(option, PipelineStageOptions):
            raise TypeError(
                f"`{name}` must hold PipelineStageOptions, but has {option!r}."
            )
    if len(options) != stages:
        raise ValueError(f"`{name}` has {len(options)} entries for {stages} stages.")
