"""What a plan would gain from other hardware, with the same settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from ipu_runtime.plan.changed_hardware import (
    HOST_RATES,
    RATE_UNIT,
    HardwareChange,
    changed,
    next_system,
)
from ipu_runtime.plan.hardware import HardwareTable, load_table
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from workbench.optimizing.goal import Aim

_STARTING = ("launch_us", "host_sync_us")
"""Constants of the host that every execution costs once."""
_LITTLE = 0.005


@dataclass(frozen=True, slots=True)
class Different:
    """A plan on other hardware."""

    what: str
    """What is different: `half the time to feed from the host`."""
    change: float
    """Of the goal's figure, as a share."""
    samples_per_second: float
    memory_fraction: float
    part: str = ""
    """The part of a step that is faster, if it is one; `feed` is also what is hidden
    behind other work."""


def other_hardware(plan: Plan, aim: Aim) -> tuple[Different, ...]:
    """Plan the same on hardware that is better in one respect each."""
    cost = aim.cost(plan)
    return tuple(
        Different(
            what,
            aim.change(aim.cost(other), cost),
            other.samples_per_second,
            other.memory_fraction,
            part,
        )
        for what, part, other in _plans(plan)
        if other.step is not None
    )


def decides(plan: Plan, different: tuple[Different, ...]) -> str:
    """Say which part of a step the throughput depends on most.

    It is not the largest part: what is hidden behind others takes no time of its own,
    and yet nothing else may help.
    """
    parts = [item for item in different if item.part]
    most = max(parts, key=lambda item: item.samples_per_second)
    gain = most.samples_per_second / plan.samples_per_second - 1
    text = f"{gain * 100:.0f} % more samples/s" if gain >= _LITTLE else "hardly more"
    return f"What decides: {most.part}; in half the time {text}."


def _plans(plan: Plan) -> Iterator[tuple[str, str, Plan]]:
    request = plan.request
    table = load_table(request.hardware_file)
    for what, part, change in _changes(table):
        yield what, part, _alone(plan, changed(table, change))
    system = table.system(request.system)
    following = next_system(table, system) if system else None
    if following is not None:
        moved = replace(plan, request=replace(request, system=following.name))
        yield f"{following.name} instead of {request.system}", "", _alone(moved, table)


def _changes(table: HardwareTable) -> Iterator[tuple[str, str, HardwareChange]]:
    """Yield what may be better, with the part of a step that all of it is about."""
    faster = {
        name: 2.0 if item.unit == RATE_UNIT else 0.5
        for name, item in table.constants.items()
    }

    def constants(*groups: str, without: Collection[str] = ()) -> dict[str, float]:
        return {
            name: faster[name]
            for name, item in table.constants.items()
            if item.group in groups and name not in without
        }

    yield "twice the arithmetic", "compute", HardwareChange(constants("compute"))
    moving = HardwareChange(constants("exchange", "sync"))
    yield "half the time to exchange and sync", "exchange and sync", moving
    yield "half the time on the links", "links", HardwareChange(constants("links"))
    rates = dict.fromkeys(HOST_RATES, 2.0)
    feed = HardwareChange(constants("host", without=_STARTING), rates)
    yield "half the time to feed from the host", "feed", feed
    start = HardwareChange({name: faster[name] for name in _STARTING})
    yield "half the time to start an execution", "launch", start
    room = HardwareChange(ipu={"tile_bytes": 2.0})
    yield "twice the memory per tile", "", room


def _alone(plan: Plan, table: HardwareTable) -> Plan:
    return make_plan(plan.request, with_remedies=False, with_layers=False, table=table)
