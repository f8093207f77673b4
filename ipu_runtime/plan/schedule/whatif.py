"""Schedules that the IPU does not have, for comparison: GPipe, 1F1B and its kin.

Each device has a fixed order of tasks. The slots of these schedules only show that
order, drawn as if all tasks took one unit; time comes event by event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.schedule.repeated import Repeated
from ipu_runtime.plan.schedule.schedule import (
    Action,
    Phase,
    Recomputation,
    Schedule,
    ScheduleKind,
    later_slot,
    later_step,
    needed_action,
)

Floats = npt.NDArray[np.float64]

_F, _B, _W = Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHT_GRADIENT


def build_whatif(
    kind: ScheduleKind, stages: int, micro_batches: int, mapping: Sequence[int]
) -> Schedule:
    """Return a training schedule of another kind of machine."""
    devices = sorted(set(mapping))
    if kind is ScheduleKind.INTERLEAVED_ONE_F_ONE_B:
        orders = _chunk_orders(stages, micro_batches, mapping, devices)
    elif len(devices) < stages:
        raise ValueError(f"{kind.value} needs one device per stage.")
    else:
        order = {
            ScheduleKind.GPIPE: _gpipe_order,
            ScheduleKind.ONE_F_ONE_B: _one_f_one_b_order,
            ScheduleKind.ZERO_BUBBLE_H1: _zero_bubble_order,
        }[kind]
        orders = [order(stage, stages, micro_batches) for stage in range(stages)]
    slots = _unit_slots(orders, stages)
    return Schedule(
        kind=kind,
        training=True,
        stages=stages,
        micro_batches=micro_batches,
        recomputation=Recomputation.OFF,
        slots=Repeated(slots, later_slot),
        program_steps=Repeated(
            tuple((index,) for index in range(len(slots))), later_step
        ),
        fifo_depth=_waiting(slots, stages),
        device_mapping=tuple(mapping),
    )


def run_events(
    schedule: Schedule, durations: Floats, copy_us: float
) -> tuple[Floats, float]:
    """Return the start of every task and the end of the last.

    Each device keeps its own order, and starts a task when the device is free and the
    task's input has arrived; an input from another device takes the copy's time.
    """
    mapping = schedule.device_mapping
    ends: dict[Action, float] = {}
    free = dict.fromkeys(mapping, 0.0)
    starts = np.empty(len(durations))
    actions = chain.from_iterable(schedule.slots.once)
    for index, (action, duration) in enumerate(
        zip(actions, durations.tolist(), strict=True)
    ):
        device = mapping[action.stage]
        start = free[device]
        needed = needed_action(action, schedule.stages)
        if needed is not None:
            away = mapping[needed.stage] != device
            start = max(start, ends[needed] + (copy_us if away else 0.0))
        starts[index] = start
        ends[action] = free[device] = start + duration
    return starts, max(free.values())


def _gpipe_order(stage: int, stages: int, count: int) -> list[Action]:
    forward = [Action(stage, _F, number) for number in range(count)]
    return forward + [Action(stage, _B, number) for number in range(count)]


def _one_f_one_b_order(stage: int, stages: int, count: int) -> list[Action]:
    warm_up = min(stages - 1 - stage, count)
    order = [Action(stage, _F, number) for number in range(warm_up)]
    for number in range(warm_up, count):
        order += [Action(stage, _F, number), Action(stage, _B, number - warm_up)]
    rest = range(count - warm_up, count)
    return order + [Action(stage, _B, number) for number in rest]


def _zero_bubble_order(stage: int, stages: int, count: int) -> list[Action]:
    """Return 1F1B's order with weight gradients moved to where a device would wait.

    Stage `s` lets `s` of them pile up, so that every stage keeps the same number of
    micro-batches alive.
    """
    order: list[Action] = []
    done = 0
    for action in _one_f_one_b_order(stage, stages, count):
        order.append(action)
        if action.phase is _B and action.micro_batch - done >= stage:
            order.append(Action(stage, _W, done))
            done += 1
    return order + [Action(stage, _W, number) for number in range(done, count)]


def _chunk_orders(
    stages: int, count: int, mapping: Sequence[int], devices: Sequence[int]
) -> list[list[Action]]:
    """Return Megatron's order: every device holds several chunks of the model."""
    width = len(devices)
    chunks, rest = divmod(stages, width)
    if rest or tuple(mapping) != tuple(devices) * chunks:
        raise ValueError("Interleaved 1F1B deals stages to devices in turns.")
    if count % width:
        raise ValueError(f"Interleaved 1F1B needs a multiple of {width} micro-batches.")
    tasks = count * chunks

    def forward(position: int, index: int) -> Action:
        turn, within = divmod(index, width * chunks)
        chunk, number = divmod(within, width)
        return Action(chunk * width + position, _F, turn * width + number)

    def backward(position: int, index: int) -> Action:
        mirrored = forward(position, index)
        chunk = chunks - 1 - mirrored.stage // width
        return Action(chunk * width + position, _B, mirrored.micro_batch)

    orders = []
    for position in range(width):
        warm_up = min((width - position - 1) * 2 + (chunks - 1) * width, tasks)
        order = [forward(position, index) for index in range(warm_up)]
        for index in range(warm_up, tasks):
            order += [forward(position, index), backward(position, index - warm_up)]
        order += [backward(position, i) for i in range(tasks - warm_up, tasks)]
        orders.append(order)
    return orders


def _unit_slots(
    orders: Sequence[Sequence[Action]], stages: int
) -> tuple[tuple[Action, ...], ...]:
    """Return the slots that follow when every task takes one unit of time."""
    done: set[Action] = set()
    heads = [0] * len(orders)
    slots: list[tuple[Action, ...]] = []
    left = sum(len(order) for order in orders)
    while left:
        slot = []
        for device, order in enumerate(orders):
            if heads[device] < len(order):
                action = order[heads[device]]
                needed = needed_action(action, stages)
                if needed is None or needed in done:
                    slot.append(action)
                    heads[device] += 1
        done.update(slot)
        left -= len(slot)
        slots.append(tuple(sorted(slot, key=lambda action: action.stage)))
    return tuple(slots)


def _waiting(slots: Sequence[Sequence[Action]], stages: int) -> tuple[int, ...]:
    """Return how many micro-batches wait at most besides the one in work."""
    alive: dict[int, int] = defaultdict(int)
    most: dict[int, int] = defaultdict(int)
    splits = any(action.phase is _W for slot in slots for action in slot)
    for slot in slots:
        for action in slot:
            if action.phase is _F:
                alive[action.stage] += 1
                most[action.stage] = max(most[action.stage], alive[action.stage])
            elif action.phase is (_W if splits else _B):
                alive[action.stage] -= 1
    return tuple(most[stage] - 1 for stage in range(stages))
