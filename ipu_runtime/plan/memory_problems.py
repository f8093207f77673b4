"""What to say when a plan does not fit the device, with remedies that were tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ipu_runtime.plan.plan import IpuMemory, Plan, PlanRequest
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.remedies import Remedy


def memory_problems(
    memory: tuple[IpuMemory, ...],
    remedies: Iterable[Remedy],
    plan: Callable[[PlanRequest], Plan],
) -> tuple[Problem, ...]:
    """Name every IPU that is too full, with the remedies that would help."""
    full = [item for item in memory if not item.fits]
    if not full:
        return ()
    tried = [_try(remedy, plan) for remedy in remedies]
    tried = [outcome for outcome in tried if outcome[0]]
    helped = next((outcome for outcome in tried if outcome[3]), ("", "", None, False))
    hint = "; ".join(outcome[0] for outcome in tried)
    return tuple(
        Problem(
            where=helped[1] or "execution.system",
            problem=f"IPU {item.ipu} does not fit: its fullest tile needs "
            f"{item.fullest_tile_bytes:,} of {item.tile_capacity_bytes:,} bytes, "
            f"{item.excess_bytes / 1e6:,.1f} MB too much in all",
            hint=f"tried: {hint}" if hint else "",
            severity=Severity.NO_FIT,
            exception="ResourceExhaustedError",
            suggestion=helped[2],
        )
        for item in full
    )


def _try(
    remedy: Remedy, plan: Callable[[PlanRequest], Plan]
) -> tuple[str, str, object, bool]:
    """Return how a remedy turned out, its field and value, and whether it helped."""
    text, value = "", None
    for value, request in remedy.candidates:
        changed = plan(request)
        if not changed.memory:
            continue
        fill = max(
            item.fullest_tile_bytes / item.tile_capacity_bytes
            for item in changed.memory
        )
        shown = _describe(remedy, value)
        if fill <= 1:
            time = f"{changed.ipu_us_per_batch:,.0f} us per batch"
            return f"{shown} fits ({fill:.0%} full, {time})", remedy.where, value, True
        text = f"{shown} does not ({fill:.0%} full)"
    return text, remedy.where, value, False


def _describe(remedy: Remedy, value: object) -> str:
    """Name a change in the words of a preset."""
    if isinstance(value, list):
        return f"{max(value) + 1} pipeline stages"
    if isinstance(value, dict):
        return f"availableMemoryProportion = {value['availableMemoryProportion']}"
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"{remedy.where} = {shown}"
