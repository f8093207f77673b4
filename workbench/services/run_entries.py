"""Runs as lists show them: one line each, in several orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workbench.runs.events import RunStatus
from workbench.runs.run_notes import RunNotes, notes_text
from workbench.runs.run_store import StoredRun
from workbench.runs.run_view import RunView


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run as a list shows it."""

    key: str
    preset: str
    status: RunStatus
    result: str
    run_id: str = ""
    """Empty before it has a record."""
    begun: datetime | None = None
    notes: RunNotes = RunNotes()  # noqa: RUF009

    @property
    def name(self) -> str:
        """What lists call it."""
        return self.notes.name or self.preset

    @property
    def text(self) -> str:
        """Everything that words of a filter may be part of."""
        parts = (self.preset, self.status.value, self.key, self.run_id)
        return " ".join([*parts, notes_text(self.notes)])


def entry_of_view(key: str, view: RunView, notes: RunNotes) -> RunEntry:
    """Return the entry of a run that this process works on."""
    status, epochs = view.status, view.epochs
    result = _result(status, epochs[-1].accuracy if epochs else None)
    if status is RunStatus.RUNNING:
        result = f"{view.fraction * 100:.0f} %"
    begun = datetime.fromtimestamp(view.log[0].at) if view.log else None
    return RunEntry(key, view.preset, status, result, view.run_id, begun, notes)


def entry_of_record(run: StoredRun, notes: RunNotes) -> RunEntry:
    """Return the entry of a run of which only the record is looked at."""
    accuracy = run.summary.get("accuracy")
    number = accuracy if isinstance(accuracy, int | float) else None
    result, begun = _result(run.status, number), _local_time(run.created)
    return RunEntry(
        run.run_id, run.preset, run.status, result, run.run_id, begun, notes
    )


def _local_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone().replace(tzinfo=None)
    except ValueError:
        return None


def _result(status: RunStatus, accuracy: float | None) -> str:
    if status is RunStatus.FINISHED and accuracy is not None:
        return f"{accuracy:.3f}"
    return status.value


NEWEST = "newest first"
ORDERS: Mapping[str, Callable[[RunEntry], Any]] = {
    NEWEST: lambda entry: 0,
    "by name": lambda entry: entry.name,
    "by result": lambda entry: (not entry.result[:1].isdigit(), _reversed(entry)),
    "by state": lambda entry: entry.status.value,
}
"""Orders of the lists; runs that are equal in one stay newest first."""


def _reversed(entry: RunEntry) -> float:
    try:
        return -float(entry.result.rstrip(" %"))
    except ValueError:
        return 0.0


def ordered(newest_first: list[RunEntry], order: str) -> list[RunEntry]:
    """Return entries in an order of `ORDERS`, pinned ones first."""
    found = newest_first if order == NEWEST else sorted(newest_first, key=ORDERS[order])
    pinned = [entry for entry in found if entry.notes.pinned]
    return pinned + [entry for entry in found if not entry.notes.pinned]
