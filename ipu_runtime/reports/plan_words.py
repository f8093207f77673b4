"""What a plan says in words, for every screen, command and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_runtime.plan.quantities import (
    byte_size,
    duration,
    microseconds,
    plural,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ipu_runtime.plan.advice import Advice
    from ipu_runtime.plan.memory.memory_walk import MemoryWalk
    from ipu_runtime.plan.plan import Plan

_SHORT = 0.1
"""Share of a step that goes into starting executions, from which an epoch is short."""


def device_words(plan: Plan) -> str:
    """Return what a plan is of: system, IPUs, replicas, processes, stages."""
    words = [plan.request.system, plural(plan.ipus, "IPU")]
    words += [plural(plan.replicas, "replica"), *_instance_words(plan)]
    if plan.schedule is not None:
        stages = plural(plan.schedule.stages, "stage")
        words.append(f"{stages} {plan.schedule.kind.value}")
    return " · ".join(words)


def epoch_words(plan: Plan) -> str:
    """Return whether the epoch is too short for its figures; mostly empty."""
    if plan.step is None or not plan.steps_per_epoch:
        return ""
    steps = (
        f"{plan.steps_per_epoch:,} {'step' if plan.steps_per_epoch == 1 else 'steps'}"
    )
    if plan.request.steady:
        steady = plural(plan.steps_per_execution, "step")
        text = f"figures are of a steady state, with executions of {steady}"
        longer_us = plan.epoch_us / plan.steps_per_epoch - plan.ipu_step_us
        if longer_us <= 0:
            return text
        longer = microseconds(longer_us)
        return f"{text}; an epoch of {steps} is too short for it: {longer} more a step"
    whole = plan.executions_per_epoch == 1
    part = plan.step.launch_us / plan.ipu_step_us
    if not whole or part < _SHORT:
        return ""
    return (
        f"an epoch of {steps} is too short for a steady state: starting it takes "
        f"{share(part)} of the time"
    )


def epoch_time(plan: Plan) -> str:
    """Return how long an epoch takes."""
    short = plan.epoch_us < 1e6
    return microseconds(plan.epoch_us) if short else duration(plan.epoch_us / 1e6)


def _instance_words(plan: Plan) -> list[str]:
    """Return processes and hosts; nothing where one process has all, on one host."""
    instances, words = plan.request.instances, []
    if instances > 1:
        words = [f"{instances} instances of {plural(plan.ipus_per_instance, 'IPU')}"]
    return [*words, f"{plan.hosts} hosts"] if plan.hosts > 1 else words


def instance_sentence(plan: Plan) -> str:
    """Return the same with the time of a host; empty where one process has all."""
    words = _instance_words(plan)
    feed = f"each host takes {microseconds(plan.feed_us)} {host_words(plan)}"
    return f"{', '.join(words)}: {feed}" if words else ""


def host_words(plan: Plan) -> str:
    """Return what a host's time in a step is for, and what goes between hosts."""
    busy = share(plan.feed_us / plan.ipu_step_us) if plan.ipu_step_us else "0 %"
    text = f"to send a step's data ahead, {busy} of the step"
    if plan.broadcast_us:
        once = microseconds(plan.broadcast_us)
        text += f"; weights reach all hosts in {once}, once"
    return text


def replica_lines(replicas: int, size: int, mapped: int, most: int = 4) -> list[str]:
    """Say which IPUs belong to which replica, and which of them have no stage."""
    if replicas < 2 and mapped >= size:
        return []
    lines = []
    for replica in range(replicas):
        first = replica * size
        used = first + mapped - 1
        line = f"replica {replica}: IPU {_span(first, used)}"
        if mapped < size:
            rest = _span(used + 1, first + size - 1)
            line += f", IPU {rest} reserved without a stage"
        lines.append(line)
    left = len(lines) - most
    return [*lines[: most - 1], f"... {left} more", lines[-1]] if left > 0 else lines


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def fullest_walk(walks: Sequence[MemoryWalk]) -> MemoryWalk:
    """Return the walk of the IPU that decides whether the program fits."""
    return max(walks, key=lambda walk: walk.memory.fullest_tile_bytes)


def peak_sentence(walk: MemoryWalk) -> str:
    """Say where the fullest step is and what it has."""
    step, memory = walk.steps[walk.peak], walk.memory
    where = f"{step.name} of {step.layer}" if step.layer else "the weight update"
    return (
        f"Fullest at program step {walk.peak + 1} of {len(walk.steps)}, {where}: sum "
        f"over tiles {byte_size(memory.used_bytes)}, of it "
        f"{byte_size(memory.always_live_bytes)} always live; "
        f"memory {share(memory.memory_fraction)} (fullest tile)"
    )


def always_words(walk: MemoryWalk) -> str:
    """Return what is always live, the largest first."""
    # Late: it loads NumPy, which the first frame of the app does without.
    from ipu_runtime.plan.plan import ALWAYS_LIVE

    sizes = {name: walk.memory.by_category[name] for name in ALWAYS_LIVE}
    if walk.memory.io_tiles:
        del sizes["io"]
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {byte_size(size)}" for name, size in largest if size)


def advice_words(advice: Advice) -> str:
    """Return what to do, and what comes of it."""
    fits = "fits, " * advice.fits
    us, less = microseconds(advice.us_per_batch), share(abs(advice.saved))
    word = "less" if advice.saved >= 0 else "more"
    return f"{advice.what}: {fits}{us} per batch, {less} {word}"


def reason_words(advice: Advice) -> str:
    """Return why, with the part of a step that changes most."""
    after = microseconds(advice.after_us) if advice.after_us else "0"
    return f"{advice.reason}: {advice.part} {microseconds(advice.before_us)} to {after}"
