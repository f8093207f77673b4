"""Conditions on a plan's figures, so that a build fails when a model outgrows them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.quantities import byte_size, four_digits, microseconds, share
from ipu_runtime.reports.document import Column, Row, Table

PlanFigures = Mapping[str, Any]
"""A plan as `plan --json` prints it and `plan.json` holds it."""

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(
    r"\s*(?P<name>[a-z_]+)(?P<change>\s+change)?\s*(?P<sign><=|>=|<|>)"
    r"\s*(?P<number>[-+]?[\d_,]*\.?\d+(?:e[-+]?\d+)?)\s*(?P<unit>%|[A-Za-z]*)\s*"
)


class GateError(ValueError):
    """A condition that says nothing; the text is fit for the user."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """How a figure may be given, and how it is shown."""

    factors: Mapping[str, float]
    """By the word after the number."""
    shown: Callable[[float], str]


_SHARE = _Unit({"%": 0.01}, share)
_TIME = _Unit({"us": 1.0, "ms": 1e3, "s": 1e6, "": 1.0}, microseconds)
_SECONDS = _Unit({"s": 1.0, "": 1.0}, lambda value: four_digits(value, "s"))
_BYTES = _Unit({"B": 1.0, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "": 1.0}, byte_size)
_NUMBER = _Unit({"": 1.0}, four_digits)
_CHANGE = _Unit({"%": 0.01}, lambda value: f"{value * 100:+.1f} %")


def _key(name: str) -> Callable[[PlanFigures], float]:
    return lambda plan: float(plan[name])


_FIGURES: Mapping[str, tuple[_Unit, Callable[[PlanFigures], float]]] = {
    "ipu_us_per_batch": (_TIME, _key("ipu_us_per_batch")),
    "samples_per_second": (_NUMBER, _key("samples_per_second")),
    "memory": (_SHARE, _key("memory_fraction")),
    "sum_over_tiles": (_BYTES, _key("sum_over_tiles_bytes")),
    "bubble_fraction": (_SHARE, _key("bubble_fraction")),
    "waiting_fraction": (_SHARE, _key("waiting_fraction")),
    "ipu_step_us": (_TIME, _key("ipu_step_us")),
    "host_us_per_step": (_TIME, _key("host_us_per_step")),
    "compile_s": (_SECONDS, _key("compile_s")),
    "replicas": (_NUMBER, _key("replicas")),
    "ipus": (_NUMBER, _key("ipus")),
}
FIGURE_NAMES = tuple(_FIGURES)
_OF_STEPS = ("ipu_step_us", "host_us_per_step")


@dataclass(frozen=True, slots=True)
class Condition:
    """What must not be true of a plan: `memory > 90 %`."""

    text: str
    figure: str
    of_change: bool
    """Whether it is about the change against another plan."""
    sign: str
    limit: float

    def broken_by(self, plan: PlanFigures, other: PlanFigures | None) -> str | None:
        """Return one line that says what is over, if the condition holds."""
        unit, figure = _FIGURES[self.figure]
        value = figure(plan)
        if self.of_change:
            assert other is not None
            if reason := _other_units(self.figure, plan, other):
                raise GateError(
                    f"{self.text!r}: {reason}; samples_per_second can be compared"
                )
            unit, value = _CHANGE, _change(value, figure(other))
        if not _COMPARISONS[self.sign](value, self.limit):
            return None
        aside = " change" if self.of_change else ""
        return (
            f"{self.figure}{aside} is {unit.shown(value)} (modelled), "
            f"which the gate refuses: {self.text}"
        )


def parse_condition(text: str, *, compared: bool) -> Condition:
    """Return a condition as the user wrote it; raise a GateError with what is wrong."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise GateError(
            f"{text!r} is no condition; write for example 'memory > 90 %' or "
            "'samples_per_second change < -5 %'"
        )
    name, of_change = found["name"], found["change"] is not None
    if name not in _FIGURES:
        hint = nearest(name, FIGURE_NAMES)
        known = f"did you mean {hint}?" if hint else f"known: {', '.join(FIGURE_NAMES)}"
        raise GateError(f"{name!r} is no figure of a plan; {known}")
    if of_change and not compared:
        raise GateError(f"{text!r} needs another plan: add --compare RUN|FILE")
    unit = _CHANGE if of_change else _FIGURES[name][0]
    if found["unit"] not in unit.factors:
        valid = ", ".join(word or "no unit" for word in unit.factors)
        raise GateError(f"{text!r}: the unit of {name} is one of: {valid}")
    number = float(found["number"].replace(",", "").replace("_", ""))
    limit = number * unit.factors[found["unit"]]
    return Condition(text.strip(), name, of_change, found["sign"], limit)


def compared_table(plan: PlanFigures, other: PlanFigures, name: str) -> Table:
    """Return the figures of a plan beside those of another."""
    rows = []
    for title, (unit, figure) in _FIGURES.items():
        new, old = figure(plan), figure(other)
        same = not _other_units(title, plan, other)
        changed = _CHANGE.shown(_change(new, old)) if same else "-"
        rows.append(Row((title, unit.shown(new), unit.shown(old), changed)))
    titles = ("this plan", name, "change")
    columns = (Column(), *(Column(title, right=True) for title in titles))
    return Table(columns, tuple(rows))


def _other_units(name: str, plan: PlanFigures, other: PlanFigures) -> str:
    """Return why a figure is of different things in two plans; empty if it is not."""
    if name not in _OF_STEPS and name != "ipu_us_per_batch":
        return ""
    if plan["request"]["batch_size"] != other["request"]["batch_size"]:
        return "batches differ in size"
    if name in _OF_STEPS and plan["replicas"] != other["replicas"]:
        return "a step of other replicas moves another number of batches"
    return ""


def _change(new: float, old: float) -> float:
    if new == old:
        return 0.0
    return new / old - 1 if old else float("inf")
