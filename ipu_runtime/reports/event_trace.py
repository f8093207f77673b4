"""Events of compiling and running programs, for `ipu_event_trace`, and as texts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ipu_runtime.system.device_state import current_state


class _Trace:
    """Events since the last reading."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.lock = threading.Lock()


_trace = _Trace()


def record_event(kind: str, module: str, data: dict[str, Any]) -> None:
    """Keep an event, if the configuration asks for events."""
    options = current_state().options
    if not options.event_trace:
        return
    if kind == "execute" and not options.profile_execution:
        data = {}
    event = {"time": time.time(), "kind": kind, "module": module, "data": data}
    with _trace.lock:
        _trace.events.append(json.dumps(event, default=str))


def take_events() -> list[str]:
    """Return all events since the last call, and forget them."""
    with _trace.lock:
        events, _trace.events = _trace.events, []
    return events


def extract_all_strings_from_event_trace(events: Iterable[Any]) -> str:
    """Return all events as one text: rule, time, kind and data of each."""
    parts = []
    for event in _decoded(events):
        when = datetime.fromtimestamp(event["time"], UTC).isoformat()
        data = json.dumps(event["data"], indent=1)
        parts.append(f"{'-' * 70}\n{when}: {event['kind']} {event['module']}\n{data}\n")
    return "\n".join(parts)


def extract_compile_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return (module name, report) of every program that was compiled."""
    return _reports(events, "compile end")


def extract_execute_reports(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return (module name, report) of every execution that was profiled."""
    return _reports(events, "execute")


def extract_poplar_serialized_graphs(events: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the graphs of Poplar among the events: there are none."""
    del events
    return []


def extract_all_types_from_event_trace(events: Iterable[Any]) -> list[int]:
    """Raise: the numbers are those of a protocol of the device's driver."""
    raise NotImplementedError(
        "extract_all_types_from_event_trace gives numbers of IpuTraceEvent, which the "
        "emulator does not have; extract_all_events gives events with their `kind`."
    )


def extract_all_events(events: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the events as dictionaries."""
    return _decoded(events)


def _reports(events: Iterable[Any], kind: str) -> list[tuple[str, str]]:
    return [
        (event["module"], json.dumps(event["data"], indent=1))
        for event in _decoded(events)
        if event["kind"] == kind and event["data"]
    ]


def _decoded(events: Iterable[Any]) -> list[dict[str, Any]]:
    if hasattr(events, "numpy"):
        events = events.numpy()
    return [json.loads(event) for event in events]
