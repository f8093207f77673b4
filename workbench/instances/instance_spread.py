"""Which instance of a run is the slowest, and how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.quantities import microseconds
from workbench.runs.events import InstanceState


def slowest(states: Sequence[InstanceState]) -> int:
    """Return the instance whose steps take longest."""
    return max(range(len(states)), key=lambda index: states[index].host_step_ms)


def spread_words(states: Sequence[InstanceState]) -> str:
    """Return the ranges of time and processor time per batch; the slowest by name."""
    measured = [state.host_ms_per_batch for state in states]
    if not all(measured):
        return f"{len(states)} instances"
    times, last = _range(measured), slowest(states)
    text = f"{len(states)} instances: {times} per batch, slowest {last}"
    work = [state.cpu_ms_per_batch for state in states]
    return f"{text}; CPU {_range(work)}" if all(work) else text


def _range(values_ms: Sequence[float]) -> str:
    low, high = (
        microseconds(1e3 * value) for value in (min(values_ms), max(values_ms))
    )
    return low if low == high else f"{low} to {high}"
