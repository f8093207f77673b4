"""A plan as a trace that Perfetto and chrome://tracing open.

Processes are replicas and threads are IPUs; times are modelled microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_timeline import plan_timeline
from ipu_runtime.plan.schedule.schedule import Phase
from ipu_runtime.plan.schedule.timeline import Interval, Timeline

Event = dict[str, Any]

_CATEGORY = {
    Phase.FORWARD: "forward",
    Phase.BACKWARD: "backward",
    Phase.RECOMPUTE: "recompute",
    Phase.WEIGHT_GRADIENT: "weight gradient",
}
_COLOUR = {
    Phase.FORWARD: "thread_state_running",
    Phase.BACKWARD: "terrible",
    Phase.RECOMPUTE: "good",
    Phase.WEIGHT_GRADIENT: "bad",
}


_MOST_TASKS = 50_000
"""More make files that viewers are slow with; those in the middle are left out."""


def chrome_trace(plan: Plan) -> dict[str, Any]:
    """Return one pipeline run, or one step of a plain model, on every replica.

    Of a run that repeats itself very often, `tasks_left_out` says what is not there.
    """
    timeline = plan_timeline(plan)
    times, left_out = _drawn(timeline, plan.replicas) if timeline else ((), 0)
    events: list[Event] = []
    for replica in range(plan.replicas):
        if timeline is None:
            events += _plain_step(plan, replica)
        else:
            events += _names(replica, timeline.ipus, plan.ipus_per_replica)
            events += _pipeline_run(plan, timeline, replica, times)
    # Names first, then by time: some viewers take the events as they come.
    events.sort(key=lambda event: (event["ph"] != "M", event.get("ts", 0.0)))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "clock": "modelled",
            "model": "ipu-workbench plan",
            "tasks_left_out": left_out,
        },
    }


def _drawn(timeline: Timeline, replicas: int) -> tuple[Sequence[int], int]:
    """Return which repetitions are drawn, and how many tasks are not."""
    slots = timeline.schedule.slots
    every = range(slots.times)
    each = sum(map(len, slots.once[slots.first : slots.first + slots.length]))
    rest = timeline.schedule.tasks - slots.times * each
    half = max(1, (_MOST_TASKS // replicas - rest) // max(each, 1) // 2)
    if timeline.schedule.tasks * replicas <= _MOST_TASKS or slots.times <= 2 * half:
        return every, 0
    return (*every[:half], *every[-half:]), (slots.times - 2 * half) * each * replicas


def _names(replica: int, ipus: tuple[int, ...], per_replica: int) -> Iterator[Event]:
    yield _named("process_name", replica, 0, {"name": f"replica {replica} (modelled)"})
    for ipu in ipus:
        name = f"IPU {replica * per_replica + ipu}"
        yield _named("thread_name", replica, ipu, {"name": name})
        yield _named("thread_sort_index", replica, ipu, {"sort_index": ipu})


def _named(name: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _pipeline_run(
    plan: Plan, timeline: Timeline, replica: int, times: Sequence[int]
) -> Iterator[Event]:
    by_ipu = {ipu: [*timeline.intervals(ipu, times)] for ipu in timeline.ipus}
    for ipu, intervals in by_ipu.items():
        for interval in intervals:
            yield _task(interval, replica, ipu)
        yield from _stash_counter(plan, intervals, replica, ipu)
    yield from _copies(timeline, by_ipu, replica)
    yield from _update(plan, timeline.total_us, replica, timeline.ipus)


def _task(interval: Interval, replica: int, ipu: int) -> Event:
    phase = interval.phase
    return {
        "ph": "X",
        "name": f"{phase.value}{interval.micro_batch} stage {interval.stage}",
        "cat": _CATEGORY[phase],
        "cname": _COLOUR[phase],
        "ts": _rounded(interval.start_us),
        "dur": _rounded(interval.end_us - interval.start_us),
        "pid": replica,
        "tid": ipu,
        "args": {
            "stage": interval.stage,
            "phase": phase.value,
            "mb": interval.micro_batch,
            "slot": interval.slot,
        },
    }


def _stash_counter(
    plan: Plan, intervals: list[Interval], replica: int, ipu: int
) -> Iterator[Event]:
    """Count the waiting activations: more after a forward pass, less after backward."""
    per_micro_batch = {
        stage.index: stage.stash_bytes / max(stage.fifo_depth, 1)
        for stage in plan.stages
    }
    waiting = 0.0
    for interval in intervals:
        if interval.phase not in (Phase.FORWARD, Phase.BACKWARD):
            continue
        change = per_micro_batch[interval.stage]
        forward = interval.phase is Phase.FORWARD
        waiting += change if forward else -change
        yield {
            "ph": "C",
            "name": f"stash of IPU {replica * plan.ipus_per_replica + ipu}",
            "ts": _rounded(interval.end_us),
            "pid": replica,
            "tid": ipu,
            "args": {"bytes": max(round(waiting), 0)},
        }


def _copies(
    timeline: Timeline, by_ipu: dict[int, list[Interval]], replica: int
) -> Iterator[Event]:
    """Draw an arrow from each task to the task on another IPU that takes its result."""
    mapping = timeline.schedule.device_mapping
    found = {
        (interval.stage, interval.phase, interval.micro_batch): interval
        for intervals in by_ipu.values()
        for interval in intervals
    }
    number = replica * len(found)
    for (stage, phase, micro_batch), source in found.items():
        step = {Phase.FORWARD: 1, Phase.BACKWARD: -1}.get(phase, 0)
        target = found.get((stage + step, phase, micro_batch))
        if not step or target is None or mapping[stage] == mapping[stage + step]:
            continue
        number += 1
        shared = {"name": "copy", "cat": "copy", "id": number, "pid": replica}
        # An arrow ends inside the slices that it connects.
        start = max(source.start_us, source.end_us - 0.001)
        yield {**shared, "ph": "s", "ts": _rounded(start), "tid": mapping[stage]}
        yield {
            **shared,
            "ph": "f",
            "bp": "e",
            "ts": _rounded(target.start_us),
            "tid": mapping[stage + step],
        }


def _update(
    plan: Plan, start_us: float, replica: int, ipus: tuple[int, ...]
) -> Iterator[Event]:
    if not plan.request.training:
        return
    if plan.all_reduce_us:
        for ipu in ipus:
            yield _block(
                "all-reduce of gradients", start_us, plan.all_reduce_us, replica, ipu
            )
    start_us += plan.all_reduce_us
    for ipu in ipus:
        own = sum(stage.update_us for stage in plan.stages if stage.ipu == ipu)
        yield _block("weight update", start_us, own, replica, ipu)


def _block(name: str, start_us: float, us: float, replica: int, ipu: int) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": "update",
        "cname": "yellow",
        "ts": _rounded(start_us),
        "dur": _rounded(us),
        "pid": replica,
        "tid": ipu,
        "args": {},
    }


def _plain_step(plan: Plan, replica: int) -> Iterator[Event]:
    """Draw the layers of a model that is not pipelined, one after the other."""
    yield from _names(replica, (0,), plan.ipus_per_replica)
    now = 0.0
    passes = [(layer, layer.forward_us, "forward") for layer in plan.layers]
    if plan.request.training:
        passes += [(lay, lay.backward_us, "backward") for lay in reversed(plan.layers)]
    for layer, duration, category in passes:
        yield {
            "ph": "X",
            "name": layer.name,
            "cat": category,
            "ts": _rounded(now),
            "dur": _rounded(duration),
            "pid": replica,
            "tid": 0,
            "args": {"kind": layer.kind, "stage": 0, "phase": category[0].upper()},
        }
        now += duration
    yield from _update(plan, now, replica, (0,))


def _rounded(us: float) -> float:
    return round(us, 3)
