"""How far off the figures of a plan may be: stated errors, widened by measurements.

The constants of a group are off together: all of them are moved by the error that
their confidence stands for, to the slow and to the fast side, and the request is
planned again. By what factor that moves a figure is combined over the groups by the
root of squares of the logarithms, as they are independent of each other; so the band of
a throughput is that of the time it takes.

Stated errors say nothing of what the model leaves out. So what moves times is taken
`band_width` times: with that, `band_coverage` of the published throughputs lie in the
band, also those that had no part in working it out (`ipu-workbench validate`). Too
little memory has been published to do the same; its band is that of stated errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ipu_runtime.plan.changed_hardware import (
    HOST_RATES,
    RATE_UNIT,
    HardwareChange,
    changed,
)
from ipu_runtime.plan.hardware import HardwareTable, IpuType, load_table
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan

SOURCES: Mapping[str, str] = {
    "compute": "cycles of vertices",
    "exchange": "cycles of exchanges",
    "sync": "fixed cost of supersteps",
    "host": "launch, streams and their rates",
    "links": "copies between IPUs, collectives",
    "code": "size of the program",
    "memory": "tensors of the fullest moment, stream buffers",
}
"""Groups of constants, with what they are about."""
_OF_MEMORY = ("code", "memory")
"""They move memory and nothing else; all others move times and no memory."""
_WIDEST = math.log(1e9)
"""A hardware file may state errors of any size, whose factors would overflow."""

Figure = Callable[[Plan], float]


@dataclass(frozen=True, slots=True)
class Band:
    """Between what a figure may lie."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Tell whether a value lies in it."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class PlanBand:
    """A plan, and the same with every source of error moved both ways."""

    plan: Plan
    slower: Mapping[str, Plan]
    """By source."""
    faster: Mapping[str, Plan]
    width: float
    """How many times the stated errors of what moves times."""
    coverage: float
    """Share of measured throughputs that are to lie in bands of this width."""

    def of(self, figure: Figure, width: float | None = None) -> Band:
        """Return the band of a figure.

        Args:
            width: Another one than that of the hardware table.
        """
        value = figure(self.plan)
        below, above = self._spread(figure, self.width if width is None else width)
        return Band(value * math.exp(-below), value * math.exp(above))

    def width_for(self, figure: Figure, value: float) -> float:
        """Return the width at which the band of a figure just reaches a value."""
        ratio = math.log(value / figure(self.plan))
        below, above = self._spread(figure, 1.0)
        reached = above if ratio > 0 else below
        return abs(ratio) / reached if reached else math.inf

    def coverage_of(self, figure: Figure) -> float | None:
        """Return what share of measured figures it holds, if that is known.

        It is not for memory, nor with hardware of the user's own.
        """
        of_memory = self.shares(figure).keys() <= set(_OF_MEMORY)
        own_hardware = self.plan.request.hardware_file
        return None if of_memory or own_hardware else self.coverage

    def _spread(self, figure: Figure, width: float) -> tuple[float, float]:
        """Return the logarithms of how far below and above a figure may be."""
        value, below, above = figure(self.plan), 0.0, 0.0
        for source in self.slower:
            moved = [
                math.log(figure(plans[source]) / value)
                * (1.0 if source in _OF_MEMORY else width)
                for plans in (self.slower, self.faster)
            ]
            below += min(*moved, 0.0) ** 2
            above += max(*moved, 0.0) ** 2
        return min(math.sqrt(below), _WIDEST), min(math.sqrt(above), _WIDEST)

    def shares(self, figure: Figure) -> dict[str, float]:
        """Return by what share each source moves a figure at most; 0 is left out."""
        value = figure(self.plan) or 1.0
        shares = {
            source: max(
                abs(figure(plans[source]) - value) / value
                for plans in (self.slower, self.faster)
            )
            for source in self.slower
        }
        return {source: share for source, share in shares.items() if share > 0}


def plan_band(plan: Plan) -> PlanBand | None:
    """Return the band of a plan; None for one without figures."""
    table = load_table(plan.request.hardware_file) if plan.step else None
    system = table.system(plan.request.system) if table else None
    if table is None or system is None:
        return None
    slower, faster = (_moved(plan, table, system.ipu, up) for up in (1, -1))
    values = table.values
    return PlanBand(plan, slower, faster, values["band_width"], values["band_coverage"])


FIGURES: Mapping[str, Figure] = {
    "ipu_step_us": lambda plan: plan.ipu_step_us,
    "ipu_us_per_batch": lambda plan: plan.ipu_us_per_batch,
    "samples_per_second": lambda plan: plan.samples_per_second,
    "memory_fraction": lambda plan: plan.memory_fraction,
}
"""The main figures, by the names that `plan --json` has for them."""


def _moved(
    plan: Plan, table: HardwareTable, ipu: IpuType, power: int
) -> dict[str, Plan]:
    return {
        source: make_plan(
            plan.request,
            with_remedies=False,
            with_layers=False,
            table=changed(table, _change(table, ipu, source, power)),
        )
        for source in SOURCES
    }


def _change(
    table: HardwareTable, ipu: IpuType, source: str, power: int
) -> HardwareChange:
    """Return one group of constants off by its errors; a power of -1 is the fast side.

    A rate that is off to the slow side is smaller.
    """
    constants = {
        name: _factor(table, item.confidence, power, rate=item.unit == RATE_UNIT)
        for name, item in table.constants.items()
        if item.group == source
    }
    rates = _factor(table, ipu.confidence, power, rate=True)
    return HardwareChange(
        constants,
        dict.fromkeys(HOST_RATES, rates) if source == "host" else {},
        _factor(table, "L", power) if source == "code" else 1.0,
    )


def _factor(
    table: HardwareTable, confidence: str, power: int, *, rate: bool = False
) -> float:
    error = table.errors.get(confidence, table.errors["L"])
    factor = (1 + error.share) ** (-power if rate else power)
    return float(factor)
