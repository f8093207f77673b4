"""Events as JSON objects: what `--json` prints and what a record stores."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plain_data import plain
from workbench.runs.events import (
    CallBegan,
    CallEnded,
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    InstancesSeen,
    InstanceState,
    Paused,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
    StepTimes,
    WentOn,
)

_TYPES: dict[str, type[Any]] = {
    "run_started": RunStarted,
    "compiling": Compiling,
    "compiled": Compiled,
    "call_began": CallBegan,
    "progress": Progressed,
    "epoch_ended": EpochEnded,
    "evaluated": Evaluated,
    "call_ended": CallEnded,
    "instances": InstancesSeen,
    "paused": Paused,
    "went_on": WentOn,
    "run_ended": RunEnded,
}
_HOLDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "str": (str,),
    "RunStatus": (str,),
    "dict[str, Any]": (dict,),
    "tuple[InstanceState, ...]": (list,),
}
"""What JSON may hold for a field, by the field's type."""
_OF_SCRIPTS = ("call", "metrics")
"""What only scripts have; an experiment's events are without them."""
PER_BATCH = (
    "host_ms_per_batch",
    "ipu_us_per_batch",
    "host_samples_per_second",
    "samples_per_second",
)
"""What follows from the time of a step; null where it is not known."""
_MOST = 2**63
_NAMES = {event_type: name for name, event_type in _TYPES.items()}


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as an object with its name under `event`."""
    values = plain(event)
    empty = [name for name in _OF_SCRIPTS if not values.get(name, True)]
    kept = {name: value for name, value in values.items() if name not in empty}
    if isinstance(event, StepTimes):
        kept |= {name: plain(getattr(event, name)) or None for name in PER_BATCH}
    return {"event": _NAMES[type(event)], **kept}


def event_from_json(row: Mapping[str, Any]) -> Event | None:
    """Return the event of an object, or None if it is none that we know.

    Keys may be added by later versions, so unknown ones are ignored.
    """
    event_type = _TYPES.get(str(row.get("event")))
    values = None if event_type is None else _values(event_type, row)
    if event_type is None or values is None:
        return None
    try:
        if event_type is RunEnded:
            values["status"] = RunStatus(values["status"])
        if event_type is InstancesSeen:
            values["instances"] = tuple(map(_state, values["instances"]))
        event: Event = event_type(**values)
    except (TypeError, ValueError, KeyError):
        return None
    return event


def _state(row: Any) -> InstanceState:
    values = _values(InstanceState, row) if isinstance(row, Mapping) else None
    if values is None:
        raise ValueError(row)
    return InstanceState(**values)


def _values(kind: type[Any], row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a dataclass that a row has; None if one cannot be."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if item.name not in row:
            continue
        value: Any = row[item.name]
        # A number that JSON cannot hold was written as null.
        if value is None and item.type == "float":
            value = math.nan
        if not isinstance(value, _HOLDS[str(item.type)]) or isinstance(value, bool):
            return None
        if item.type == "int" and value not in range(_MOST):
            return None
        if "float" in str(item.type) and isinstance(value, int):
            value = _as_float(value)
        values[item.name] = value
    return values


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def event_line(event: Event, at: float) -> str:
    """Return an event and when it happened as one line."""
    return _line({**event_to_json(event), "time": at})


def to_line(row: Mapping[str, Any]) -> str:
    """Return an object as one line of strict JSON, newline included."""
    return _line(plain(row))


def _line(plain_row: Mapping[str, Any]) -> str:
    line = json.dumps(plain_row, allow_nan=False, separators=(",", ":"))
    # The one control character that JSON leaves as it is.
    return line.replace("\x7f", "\\u007f") + "\n"
