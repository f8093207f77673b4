"""What to say when a plan does not fit the device, with remedies that were tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ipu_runtime.plan.memory.remedies import Remedy
from ipu_runtime.plan.plan import IpuMemory, Plan
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.weight_updates import update_changes


def memory_problems(
    memory: tuple[IpuMemory, ...],
    remedies: Iterable[Remedy],
    plan: Callable[[PlanRequest], Plan],
    before: PlanRequest,
) -> tuple[Problem, ...]:
    """Name every IPU that is too full, with the remedies that would help.

    Args:
        memory: Of every IPU of a replica.
        remedies: What may be tried.
        plan: How it is tried.
        before: What is too full.
    """
    full = [item for item in memory if not item.fits]
    if not full:
        return ()
    tried = [_try(remedy, plan, before) for remedy in remedies]
    hint = "; ".join(outcome.text for outcome in tried if outcome.text)
    helped = next((outcome for outcome in tried if outcome.fits), _Outcome())
    return tuple(
        Problem(
            where=helped.where or "execution.system",
            problem=f"IPU {item.ipu} does not fit: its fullest tile needs "
            f"{item.fullest_tile_bytes:,} of {item.tile_capacity_bytes:,} bytes, "
            f"{item.excess_bytes / 1e6:,.1f} MB too much in all",
            hint=f"tried: {hint}" if hint else "",
            severity=Severity.NO_FIT,
            exception="ResourceExhaustedError",
            suggestion=helped.value,
        )
        for item in full
    )


class _Outcome(NamedTuple):
    """How a remedy turned out."""

    text: str = ""
    where: str = ""
    value: object = None
    fits: bool = False


def _try(
    remedy: Remedy, plan: Callable[[PlanRequest], Plan], before: PlanRequest
) -> _Outcome:
    """Return the first candidate that fits, or else the last."""
    candidates = list(remedy.candidates)
    if not candidates:
        return _Outcome()
    last = _planned(remedy, *candidates.pop(), plan, before)
    if remedy.shrinking and not last.fits:
        # What the strongest does not save, no other does.
        return last
    others = (_planned(remedy, *candidate, plan, before) for candidate in candidates)
    return next((outcome for outcome in others if outcome.fits), last)


def _planned(
    remedy: Remedy,
    value: object,
    request: PlanRequest,
    plan: Callable[[PlanRequest], Plan],
    before: PlanRequest,
) -> _Outcome:
    changed, shown = plan(request), _describe(remedy, value)
    if not changed.memory:
        return _Outcome()
    fill = changed.memory_fraction
    if fill > 1:
        return _Outcome(f"{shown} does not ({fill:.0%} full)")
    time = f"{changed.ipu_us_per_batch:,.0f} us per batch"
    facts = (f"{fill:.0%} full", time, *update_changes(before, request))
    text = f"{shown} fits ({', '.join(facts)})"
    return _Outcome(text, remedy.where, value, fits=True)


def _describe(remedy: Remedy, value: object) -> str:
    """Name a change in the words of a preset."""
    if isinstance(value, list):
        return f"{max(value) + 1} pipeline stages"
    if isinstance(value, dict):
        return f"availableMemoryProportion = {value['availableMemoryProportion']}"
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"{remedy.where} = {shown}"
