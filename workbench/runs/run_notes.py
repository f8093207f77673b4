"""What the user says about a run: a name, a note, tags, and whether it stays on top.

It is a file of its own beside `run.json`, because that belongs to the run's process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.runs.run_store import StoredRun
from workbench.runs.whole_directories import discard_directory, remove_leftovers
from workbench.store_files import remove_file
from workbench.store_json import (
    RecordError,
    WriterLock,
    explained,
    has_writer,
    load_json,
    read_json,
    replace_json,
    safe_name,
)

_FILE = "notes.json"
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What is said about a run; all of it may be empty."""

    name: str = ""
    """How lists call it instead of its preset."""
    note: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False


def read_notes(directory: Path) -> RunNotes:
    """Return what is said about the run of a record."""
    return _notes(read_json(directory / _FILE) or {})


def _notes(content: Mapping[str, Any]) -> RunNotes:
    tags = content.get("tags")
    return RunNotes(
        _text(content.get("name")),
        _text(content.get("note")),
        tuple(
            tag
            for tag in (tags if isinstance(tags, list) else ())
            if isinstance(tag, str) and safe_name(tag)
        ),
        content.get("pinned") is True,
    )


def notes_text(notes: RunNotes) -> str:
    """Return what is said about a run in one line: `pinned, name: note #tag`."""
    name = f"{notes.name}:" if notes.name and notes.note else notes.name
    words = ["pinned" if notes.pinned else "", name, notes.note]
    return " ".join([word for word in words if word] + [f"#{t}" for t in notes.tags])


def _text(value: Any) -> str:
    return " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""


def change_notes(directory: Path, **changes: Any) -> RunNotes:
    """Say something else about a run and return all that is said now.

    What cannot be read now is not taken for empty: it would be lost.
    """
    try:
        content = load_json(directory / _FILE)
    except RecordError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            raise
        content = {}
    write_notes(directory, replace(_notes(content), **changes))
    return read_notes(directory)


def write_notes(directory: Path, notes: RunNotes) -> None:
    """Keep what is said about a run; nothing said leaves no file."""
    for tag in notes.tags:
        if not safe_name(tag):
            raise RecordError(f"tag {tag!r}: use letters, digits, '.', '_' and '-'")
    if notes == RunNotes():
        with explained(directory / _FILE):
            remove_file(directory / _FILE)
        return
    content = {
        "name": _text(notes.name),
        "note": _text(notes.note),
        "tags": sorted(set(notes.tags)),
        "pinned": notes.pinned,
    }
    replace_json(directory / _FILE, content)


def delete_run(run: StoredRun) -> None:
    """Delete the record of a run that no process is working on."""
    if run.live:
        raise RecordError(f"{run.run_id} is {run.status.value}: stop it first")
    # A damaged one may have no lock that can be taken; if it has, nobody may hold it.
    lock = None
    if not run.damaged or has_writer(run.directory / "lock"):
        lock = WriterLock(run.directory / "lock")
    try:
        remove_leftovers(run.directory.parent)
        discard_directory(run.directory)
    finally:
        if lock is not None:
            lock.release()
