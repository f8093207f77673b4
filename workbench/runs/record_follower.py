"""Keeps the view of a run up with its record, whoever writes that.

[Note: one run]
Every run is a record that one thread or process appends events to. Whoever shows a run
follows the record, also the app its own: it reads what was appended since the last look
and folds it into a `RunView`. So there is one way from an event to the screen, and what
is seen while a run goes on is what is seen of it afterwards.

A run that is resumed appends `{"event": "resumed", "first_epoch": …, "step": …}`: what
it had done beyond that place is done again and counts no more. A view cannot forget, so
the follower then folds the whole record anew, without those events (`lasting_events`).

Whole lines only are read: a line without its end is still being written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workbench.runs.run_store import StoredRun, lasting_events
from workbench.runs.run_view import RunView
from workbench.store_files import open_to_read, size_of

_MOST_BYTES = 8 * 2**20
"""Of one look; the rest comes with the next."""


class RecordFollower:
    """Reads a record from where it has come to; to be used by one thread."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._path = run.directory / "metrics.jsonl"
        self._log = run.directory / "run.log"
        self._at = self._printed = 0
        self.view = self._empty()

    def _empty(self) -> RunView:
        view = RunView.of(self._run.preset, self._run.tables, ())
        view.begin(self._run.run_id)
        return view

    @property
    def behind(self) -> bool:
        """Whether there is something to read."""
        return not self._run.damaged and size_of(self._path) > self._at

    def follow(self) -> bool:
        """Take in what was appended since the last look; tell if there was anything."""
        if not self.behind:
            return self._has_printed()
        try:
            rows = self._rows(_MOST_BYTES)
        except OSError as error:
            self.view.message = f"{self._path} cannot be read: {error.strerror}"
            self._at = size_of(self._path)
            return True
        if any(row.get("event") == "resumed" for row in rows):
            end, self._at = self._at, 0
            rows = self._rows(end)
            self.view = self._empty()
        for at, event in lasting_events(rows):
            self.view.add(event, at)
        return bool(rows)

    def _has_printed(self) -> bool:
        """Tell whether a script has printed more, which no event tells."""
        before = self._printed
        if self.view.script:
            self._printed = size_of(self._log)
        return self._printed != before

    def catch_up(self) -> None:
        """Take in all that there is."""
        while self.behind:
            before = self._at
            self.follow()
            if self._at == before:
                return  # Only the beginning of a line is left.

    def _rows(self, most: int) -> list[Mapping[str, Any]]:
        """Return the objects of the next whole lines."""
        with open_to_read(self._path) as stream:
            stream.seek(self._at)
            content = stream.read(most)
        whole = content.rfind(b"\n") + 1
        self._at += whole or (len(content) if len(content) == _MOST_BYTES else 0)
        found = (_row(line) for line in content[:whole].splitlines())
        return [row for row in found if row is not None]


def _row(line: bytes) -> Mapping[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
