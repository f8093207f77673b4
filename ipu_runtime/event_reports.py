"""Texts made from the events of `ipu_event_trace`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any


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
