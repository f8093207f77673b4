"""Events of compiling and running programs, for `ipu_event_trace`."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from ipu_runtime.device_state import current_state


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
