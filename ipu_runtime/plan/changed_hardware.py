"""The hardware table with something different, for what-ifs and error bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ipu_runtime.plan.hardware import HardwareTable, IpuType, System

HOST_RATES = ("host_gb_s", "machine_host_gb_s", "remote_gb_s")
"""Rates that every chip states for itself."""
RATE_UNIT = "GB/s"


@dataclass(frozen=True, slots=True)
class HardwareChange:
    """What is different, as factors."""

    constants: Mapping[str, float] = field(default_factory=dict)
    ipu: Mapping[str, float] = field(default_factory=dict)
    """Of the fields of every chip."""
    code: float = 1.0
    """Of all code sizes."""


def changed(table: HardwareTable, change: HardwareChange) -> HardwareTable:
    """Return the table with the change."""
    ipus = {name: _scaled(ipu, change.ipu) for name, ipu in table.ipus.items()}
    return replace(
        table,
        ipus=ipus,
        systems={
            name: system._replace(ipu=ipus[system.ipu.name])
            for name, system in table.systems.items()
        },
        constants={
            name: item._replace(value=item.value * change.constants.get(name, 1.0))
            for name, item in table.constants.items()
        },
        code={
            name: _scaled(size, dict.fromkeys(size._fields, change.code))
            for name, size in table.code.items()
        },
    )


def next_system(table: HardwareTable, system: System) -> System | None:
    """Return the system of the same size whose chips are the next faster ones."""
    faster = (
        other
        for other in table.systems.values()
        if (other.ipus, other.ipus_per_machine)
        == (system.ipus, system.ipus_per_machine)
        and _speed(other.ipu) > _speed(system.ipu)
    )
    return min(faster, key=lambda other: _speed(other.ipu), default=None)


def _speed(ipu: IpuType) -> float:
    return ipu.fp16_tflops


def _scaled(entry: Any, factors: Mapping[str, float]) -> Any:
    """Return a named tuple with some numbers multiplied; whole numbers stay whole."""
    values = {name: getattr(entry, name) for name in factors}
    return entry._replace(
        **{name: type(value)(value * factors[name]) for name, value in values.items()}
    )
