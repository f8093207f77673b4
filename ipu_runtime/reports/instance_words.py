"""How a plan's replicas are shared out, in the words of every screen and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_runtime.plan.quantities import microseconds, plural, share

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import Plan


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
