"""Events as JSON objects: what `--json` prints and what a record stores."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from workbench.core.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)

_TYPES: dict[str, type[Any]] = {
    "run_started": RunStarted,
    "compiling": Compiling,
    "compiled": Compiled,
    "progress": Progressed,
    "epoch_ended": EpochEnded,
    "evaluated": Evaluated,
    "run_ended": RunEnded,
}
_HOLDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "str": (str,),
    "RunStatus": (str,),
    "dict[str, Any]": (dict,),
}
"""What JSON may hold for a field, by the field's type."""
_MOST = 2**63
_NAMES = {event_type: name for name, event_type in _TYPES.items()}


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as an object with its name under `event`."""
    fields = {
        item.name: getattr(event, item.name) for item in dataclasses.fields(event)
    }
    if isinstance(event, RunEnded):
        fields["status"] = event.status.value
    return {"event": _NAMES[type(event)], **plain(fields)}


def event_from_json(row: Mapping[str, Any]) -> Event | None:
    """Return the event of an object, or None if it is none that we know.

    Keys may be added by later versions, so unknown ones are ignored.
    """
    event_type = _TYPES.get(str(row.get("event")))
    if event_type is None:
        return None
    values: dict[str, Any] = {}
    for item in dataclasses.fields(event_type):
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
    try:
        if event_type is RunEnded:
            values["status"] = RunStatus(values["status"])
        event: Event = event_type(**values)
    except (TypeError, ValueError, KeyError):
        return None
    return event


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def to_line(row: Mapping[str, Any]) -> str:
    """Return an object as one line of strict JSON, newline included."""
    line = json.dumps(plain(row), allow_nan=False, separators=(",", ":"))
    # The one control character that JSON leaves as it is.
    return line.replace("\x7f", "\\u007f") + "\n"


def plain(value: Any) -> Any:
    """Return a value of JSON's own types; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int) else str(value)
