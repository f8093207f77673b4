"""What a plan's epoch says about its figures: whether they are of a steady state."""

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
