"""What lists say of runs: their numbers and notes, kept so that none is read twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.comparing.outcome import outcome_of
from workbench.locations import runs_directory
from workbench.runs.run_notes import notes_text, read_notes
from workbench.runs.run_store import StoredRun
from workbench.store_files import names_in
from workbench.store_index import StoreIndex

_FORMAT = 1
_NAME = ".outcomes.json"


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with what a line of a list says of it."""

    run: StoredRun
    outcome: Mapping[str, float]
    said: str
    """Name, note and tags."""


def listed_runs(runs: Sequence[StoredRun]) -> list[ListedRun]:
    """Return what to say of runs; those that have ended are read once."""
    index = StoreIndex(runs_directory() / _NAME, _FORMAT)
    listed = []
    for run in runs:
        known = index.get(run.run_id, run.stamp)
        if not _is_row(known):
            known = [outcome_of(run), notes_text(read_notes(run.directory))]
            if not (run.live or run.damaged):
                index.put(run.run_id, run.stamp, known)
        listed.append(ListedRun(run, known[0], known[1]))
    # Only some may be asked for; what is kept of the others stays.
    index.write(names_in(runs_directory()))
    return listed


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], dict)
        and all(type(number) in (int, float) for number in value[0].values())
        and isinstance(value[1], str)
    )
