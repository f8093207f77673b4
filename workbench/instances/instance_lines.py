"""What an instance says besides the events of the run, one object per line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ipu_runtime.plan.plain_data import plain
from workbench.runs.event_json import event_from_json, event_to_json, to_line
from workbench.runs.events import Event

_KEY = "instance"


@dataclass(frozen=True, slots=True)
class Here:
    """It has begun."""

    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Alive:
    """It still works; said every second."""

    cpu_s: float
    """Time of processors that it has used so far."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot go on."""

    message: str
    lost: bool
    """Whether only because another one is gone."""


Note = Here | Alive | Failed
_NOTES: dict[str, type[Any]] = {"here": Here, "alive": Alive, "failed": Failed}
_NAMES = {kind: name for name, kind in _NOTES.items()}


def line_of(said: Event | Note) -> str:
    """Return what is said as one line."""
    if isinstance(said, Note):
        return to_line({_KEY: _NAMES[type(said)], **plain(said)})
    return to_line(event_to_json(said))


def read_line(line: str) -> Event | Note | None:
    """Return what a line says; None if a library has written it."""
    try:
        row = json.loads(line)
        kind = _NOTES.get(row.pop(_KEY, ""))
        note: Note | None = None if kind is None else kind(**row)
    except (ValueError, AttributeError, TypeError):
        return None
    return note if kind is not None else event_from_json(row)
