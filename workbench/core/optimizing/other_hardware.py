"""What a plan would gain from other hardware, with the same settings."""

from __future__ import annotations

from collections.abc import Iterator
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
from workbench.core.optimizing.goal import Aim


@dataclass(frozen=True, slots=True)
class Different:
    """A plan on other hardware."""

    what: str
    """What is different: `twice the host bandwidth`."""
    change: float
    """Of the goal's figure, as a share."""
    samples_per_second: float
    memory_fraction: float


def other_hardware(plan: Plan, aim: Aim) -> tuple[Different, ...]:
    """Plan the same on hardware that is better in one respect each."""
    cost = aim.cost(plan)
    return tuple(
        Different(
            what,
            aim.change(aim.cost(other), cost),
            other.samples_per_second,
            other.memory_fraction,
        )
        for what, other in _plans(plan)
        if other.step is not None
    )


def _plans(plan: Plan) -> Iterator[tuple[str, Plan]]:
    request = plan.request
    table = load_table(request.hardware_file)
    for what, change in _changes(table).items():
        yield what, _alone(plan, changed(table, change))
    system = table.system(request.system)
    following = next_system(table, system) if system else None
    if following is not None:
        moved = replace(plan, request=replace(request, system=following.name))
        yield f"{following.name} instead of {request.system}", _alone(moved, table)


def _changes(table: HardwareTable) -> dict[str, HardwareChange]:
    links = [
        name
        for name, item in table.constants.items()
        if item.group == "links" and item.unit == RATE_UNIT
    ]
    return {
        "twice the links": HardwareChange(dict.fromkeys(links, 2.0)),
        "twice the host bandwidth": HardwareChange(ipu=dict.fromkeys(HOST_RATES, 2.0)),
        "half the time to exchange and sync": HardwareChange(
            {"exchange_scale": 0.5, "sigma": 0.5}
        ),
        "twice the memory per tile": HardwareChange(ipu={"tile_bytes": 2.0}),
    }


def _alone(plan: Plan, table: HardwareTable) -> Plan:
    return make_plan(plan.request, with_remedies=False, with_layers=False, table=table)
