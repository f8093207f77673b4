"""Time of one step, taken apart, for plain models and for pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ipu_runtime.plan.costs.fetching import FetchedTime
from ipu_runtime.plan.costs.layer_costs import Cycles
from ipu_runtime.plan.costs.links import (
    all_reduce_us,
    count_collectives,
    physical_order,
    transfer_us,
)
from ipu_runtime.plan.costs.stage_costs import Sums
from ipu_runtime.plan.plan import StepTime
from ipu_runtime.plan.request import PipelineRequest
from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.stage_clock import find_supersteps
from ipu_runtime.plan.schedule.timeline import StageTimes, pipeline_time_us


class StepInputs(NamedTuple):
    """What the time of a step is made of."""

    stages: tuple[Sums, ...]
    infeed: Cycles
    """What the device does with arriving data."""
    recomputed: tuple[Cycles, ...]
    """Forward work of every stage that is done again."""
    infeed_us: float
    overlapped: bool
    """Whether input and output tiles stream while the others compute."""
    accumulates: bool
    accumulation: int
    """Micro-batches per weight update, or per run in inference."""
    steps_per_execution: int
    launch_us: float
    """The host's time to start an execution."""
    replicas: int
    ipus_per_replica: int
    sum_buffer_bytes: int
    training: bool
    state_us: tuple[float, ...]
    """Streaming memory of every stage, once per weight update."""
    fetched: tuple[FetchedTime, ...]
    """What is not on the tiles, of every stage, once per micro-batch."""
    clock_hz: float
    constants: Mapping[str, float]


class Timing(NamedTuple):
    """The modelled times of a replica."""

    step: StepTime
    forward_us: tuple[float, ...]
    """Per stage; the first has the infeed."""
    backward_us: tuple[float, ...]
    recompute_us: tuple[float, ...]
    update_us: tuple[float, ...]
    copy_us: float
    run_us: float
    whole_update_us: float
    all_reduce_us: float
    late_us: float = 0.0
    """Time of a step in which a host is waited for that sends too slowly."""


class _Parts(NamedTuple):
    """Cycles of some work, in microseconds."""

    compute: float
    exchange: float
    sync: float

    @property
    def total(self) -> float:
        return self.compute + self.exchange + self.sync


def parts_us(cycles: Cycles, clock_hz: float, constants: Mapping[str, float]) -> _Parts:
    """Turn cycles into time."""
    per_us = 1e6 / clock_hz
    return _Parts(
        cycles.compute * constants["compute_scale"] * per_us,
        cycles.exchange * constants["exchange_scale"] * per_us,
        cycles.supersteps * constants["sigma"] * per_us,
    )


def time_plain(inputs: StepInputs) -> Timing:
    """Time a model on one IPU."""
    (stage,) = inputs.stages
    constants = inputs.constants
    loop = _loop(constants)
    backward = stage.backward
    if inputs.accumulates:
        backward = backward.plus(stage.accumulate)
    forward = _us(stage.forward.plus(inputs.infeed), inputs)
    backward_parts, again = _us(backward, inputs), _us(inputs.recomputed[0], inputs)
    looped = _us(loop, inputs)
    busy = [forward, backward_parts, again, looped]
    (update,) = _updates_us(inputs)
    reduce = _all_reduce(inputs)
    device = sum(part.total for part in busy)
    streamed = inputs.infeed_us
    if inputs.overlapped:
        streamed = max(0.0, streamed - device)
    step = StepTime(
        compute_us=sum(part.compute for part in busy),
        exchange_us=sum(part.exchange for part in busy),
        sync_us=sum(part.sync for part in busy),
        links_us=reduce / inputs.accumulation,
        waiting_us=0.0,
        update_us=update / inputs.accumulation,
        infeed_us=streamed,
        launch_us=inputs.launch_us / inputs.steps_per_execution,
    )
    return Timing(
        step,
        (forward.total + streamed,),
        (backward_parts.total,),
        (again.total,),
        (update,),
        0.0,
        device + streamed,
        update,
        reduce,
    )


def time_pipeline(
    inputs: StepInputs,
    pipeline: PipelineRequest,
    mapping: tuple[int, ...],
    boundaries: tuple[tuple[int, int], ...],
    selection_order: str,
) -> Timing:
    """Time a pipeline by the step model."""
    constants, count = inputs.constants, inputs.accumulation
    training = inputs.training
    forward, backward, again = [], [], []
    compute = exchange = sync = 0.0
    for at, stage in enumerate(inputs.stages):
        ahead = stage.forward.plus(inputs.infeed) if at == 0 else stage.forward
        ahead_us = _us(ahead, inputs)
        back_us = _us(stage.backward.plus(stage.accumulate), inputs)
        again_us = _us(inputs.recomputed[at], inputs)
        for part in (ahead_us, back_us, again_us):
            compute += part.compute
            exchange += part.exchange
            sync += part.sync
        fetched = inputs.fetched[at]
        forward.append(ahead_us.total + fetched.forward_us)
        backward.append(back_us.total + fetched.backward_us if training else 0.0)
        again.append(again_us.total + fetched.again_us)
    streamed = inputs.infeed_us
    if inputs.overlapped:
        streamed = max(0.0, streamed - forward[0] - backward[0])
    forward[0] += streamed
    sequential = pipeline.schedule is ScheduleKind.SEQUENTIAL
    copies = _copies_us(mapping, boundaries, selection_order, constants, training)
    slots = len(mapping) * (2 if training else 1)
    copy_us = sum(copies) / slots if sequential else max(copies, default=0.0)
    times = StageTimes(tuple(forward), tuple(backward), tuple(again), copy_us)
    run_us, steps = _run_us(times, pipeline, mapping, count, training)
    if inputs.overlapped and not sequential:
        # Loading and unloading are a program step ahead and behind.
        run_us, steps = run_us + 2 * copy_us, steps + 2
    ipus = len(set(mapping))
    reduce = _all_reduce(inputs)
    updates = _updates_us(inputs)
    whole_update = _largest(updates, mapping) + _us(_loop(constants), inputs).total
    copied = copy_us * steps / count
    elsewhere = sum(fetched.total_us for fetched in inputs.fetched) / ipus
    busy = (compute + exchange + sync + streamed) / ipus + elsewhere
    step = StepTime(
        compute_us=compute / ipus,
        exchange_us=exchange / ipus,
        sync_us=sync / ipus,
        links_us=copied + elsewhere + reduce / count,
        waiting_us=max(run_us / count - copied - busy, 0.0),
        update_us=whole_update / count,
        infeed_us=streamed / ipus,
        launch_us=inputs.launch_us / inputs.steps_per_execution,
    )
    return Timing(
        step,
        tuple(forward),
        tuple(backward),
        tuple(again),
        updates,
        copy_us,
        run_us,
        whole_update,
        reduce,
    )


def _us(cycles: Cycles, inputs: StepInputs) -> _Parts:
    return parts_us(cycles, inputs.clock_hz, inputs.constants)


def _updates_us(inputs: StepInputs) -> tuple[float, ...]:
    """Return the time of every stage's weight update."""
    if not inputs.training:
        return (0.0,) * len(inputs.stages)
    return tuple(
        _us(stage.update, inputs).total + streamed
        for stage, streamed in zip(inputs.stages, inputs.state_us, strict=True)
    )


def _loop(constants: Mapping[str, float]) -> Cycles:
    return Cycles(constants["loop_cycles"], 0.0, int(constants["loop_supersteps"]))


def _all_reduce(inputs: StepInputs) -> float:
    """Return the reduction of the stage that has most to reduce."""
    if not inputs.training or inputs.replicas < 2:
        return 0.0
    return max(
        all_reduce_us(
            sum(stage.gradient_bytes),
            inputs.replicas,
            count_collectives(stage.gradient_bytes, inputs.sum_buffer_bytes),
            inputs.constants,
            inputs.ipus_per_replica,
        )
        for stage in inputs.stages
    )


def _largest(updates: tuple[float, ...], mapping: tuple[int, ...]) -> float:
    """Return the update time of the IPU that has most to update."""
    per_ipu: dict[int, float] = {}
    for ipu, update in zip(mapping, updates, strict=True):
        per_ipu[ipu] = per_ipu.get(ipu, 0.0) + update
    return max(per_ipu.values())


def _copies_us(
    mapping: tuple[int, ...],
    boundaries: tuple[tuple[int, int], ...],
    selection_order: str,
    constants: Mapping[str, float],
    training: bool,
) -> list[float]:
    """Return the time of all transfers over every boundary."""
    # The compiler sees IPUs, not who chose them.
    in_order = mapping == tuple(range(len(mapping)))
    places = 1 << max(mapping).bit_length()
    order = physical_order(selection_order, places, in_order)
    copies = []
    for stage, (there, back) in enumerate(boundaries):
        ends = order[mapping[stage]], order[mapping[stage + 1]]
        time = transfer_us(there, *ends, constants)
        if training:
            time += transfer_us(back, *ends, constants)
        copies.append(time)
    return copies


def _run_us(
    times: StageTimes,
    pipeline: PipelineRequest,
    mapping: tuple[int, ...],
    count: int,
    training: bool,
) -> tuple[float, float]:
    """Return the time of one run and how many steps have copies."""
    stages = len(mapping)
    mode = pipeline.recomputation if training else Recomputation.OFF
    if pipeline.schedule.on_ipu and len(set(mapping)) == stages:
        supersteps = find_supersteps(
            pipeline.schedule, stages, count, mode, training=training
        )
        total = supersteps.times(
            np.array([times.forward]),
            np.array([times.backward]),
            np.array([times.recompute]),
            np.array([times.copy_us]),
        )
        return float(total[0]), float(supersteps.counts.sum())
    schedule = build_schedule(
        pipeline.schedule,
        stages,
        count,
        training=training,
        recomputation=mode,
        device_mapping=mapping,
    )
    return pipeline_time_us(schedule, times), float(len(schedule.program_steps))
