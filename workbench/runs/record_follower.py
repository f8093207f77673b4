"""Reads what a record has got since the last look, while another process writes it."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.runs.event_json import event_from_json
from workbench.runs.events import Event
from workbench.store_files import open_to_read, size_of

_MOST_BYTES = 8 * 2**20
"""Of one look; the rest comes with the next."""


class RecordFollower:
    """Remembers how far the events of a record were read."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "metrics.jsonl"
        self._at = 0
        self.rewritten = False
        """Whether it was resumed: some of its events count no more."""

    @property
    def behind(self) -> bool:
        """Whether there is something to read."""
        return size_of(self._path) > self._at

    def new_events(self) -> list[tuple[Event, float]]:
        """Return the events of whole lines that were not read yet, with their times."""
        try:
            with open_to_read(self._path) as stream:
                stream.seek(self._at)
                content = stream.read(_MOST_BYTES)
        except OSError:
            return []
        # A line without its end is still being written.
        whole = content.rfind(b"\n") + 1
        self._at += whole or (len(content) if len(content) == _MOST_BYTES else 0)
        found = (self._event(row) for row in content[:whole].splitlines())
        return [item for item in found if item is not None]

    def _event(self, line: bytes) -> tuple[Event, float] | None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(row, dict):
            return None
        self.rewritten |= row.get("event") == "resumed"
        event, at = event_from_json(row), row.get("time")
        if event is None:
            return None
        return event, float(at) if isinstance(at, int | float) else 0.0
