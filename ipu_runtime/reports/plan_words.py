"""What a plan's epoch and its instances are, in the words of screens and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_runtime.plan.quantities import microseconds, plural, share

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import Plan

_SHORT = 0.1
"""Share of a step that goes into starting executions, from which an epoch is short."""


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


def instance_words(plan: Plan) -> list[str]:
    """Return processes and hosts; nothing where one process has all, on one host."""
    instances, words = plan.request.instances, []
    if instances > 1:
        words = [f"{instances} instances of {plural(plan.ipus_per_instance, 'IPU')}"]
    return [*words, f"{plan.hosts} hosts"] if plan.hosts > 1 else words


def instance_sentence(plan: Plan) -> str:
    """Return the same with the time of a host; empty where one process has all."""
    words = instance_words(plan)
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
