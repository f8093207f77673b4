"""A plan as plain data, for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from ipu_runtime.plan.plan import Plan


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return the whole plan, with the figures that follow from its parts."""
    content: dict[str, Any] = plain(plan)
    content |= {
        "ipu_step_us": plan.ipu_step_us,
        "ipu_us_per_batch": plan.ipu_us_per_batch,
        "samples_per_second": plan.samples_per_second,
    }
    return content


def memory_to_json(plan: Plan) -> list[dict[str, Any]]:
    """Return the modelled memory of every IPU."""
    return [{**plain(item), "fits": item.fits} for item in plan.memory]


def plain(value: Any) -> Any:
    """Return a value as lists, dictionaries, numbers and texts."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
