"""The index of records: quick, and never believed against the records."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from workbench.comparing.listed_runs import listed_runs
from workbench.runs.events import RunStatus
from workbench.runs.run_notes import RunNotes, write_notes
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import StoredRun, list_runs, open_run

COUNT = 30
PAST = (10**9, 10**9)
"""Access and change, long ago: the index takes only files that have settled."""


@pytest.fixture
def root(home: Path) -> Path:
    """Return a store whose records are in the index."""
    for number in range(COUNT):
        tables = {"train": {"epochs": number + 1}}
        record = RunRecord.create(tables, "mnist", "odd" if number % 2 else "")
        record.finish(RunStatus.FINISHED, summary={"accuracy": number / 100})
        (record.directory / "metrics.jsonl").touch()
        for path in (*record.directory.glob("*.json*"), record.directory):
            os.utime(path, PAST)
    list_runs()
    return home / "runs"


def seen() -> list[tuple[object, ...]]:
    return [told(run) for run in list_runs()]


def told(run: StoredRun) -> tuple[object, ...]:
    return (
        run.run_id,
        run.preset,
        run.group,
        run.status,
        run.created,
        run.ended,
        run.pid,
        dict(run.summary),
        run.tables,
    )


def test_list_is_the_same_with_and_without_the_index(root: Path) -> None:
    index = root / ".index.json"
    assert len(_rows(index)) == COUNT
    with_index = seen()
    index.unlink()
    assert seen() == with_index == [told(open_run(name)) for name in _names(root)]
    assert index.exists()
    assert len(list_runs("odd")) == COUNT // 2


def _names(root: Path) -> list[str]:
    return sorted(
        (path.name for path in root.iterdir() if path.name[0] != "."), reverse=True
    )


def _rows(index: Path) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads(index.read_text().partition("\n")[2])
    return rows


def test_a_byte_that_has_changed_is_noticed(root: Path) -> None:
    expected = seen()
    index = root / ".index.json"
    whole = index.read_bytes()
    assert b'"accuracy": 0.07' in whole
    index.write_bytes(whole.replace(b'"accuracy": 0.07', b'"accuracy": 0.97'))
    assert seen() == expected
    assert index.read_bytes() == whole


def test_lists_say_the_same_with_and_without_what_they_keep(root: Path) -> None:
    fresh = listed_runs(list_runs())
    assert (root / ".outcomes.json").exists()
    assert listed_runs(list_runs()) == fresh
    assert listed_runs(list_runs()[:3]) == fresh[:3]
    assert len(_rows(root / ".outcomes.json")) == COUNT
    name = fresh[0].run.run_id
    write_notes(root / name, RunNotes("name"))
    with (root / fresh[1].run.run_id / "metrics.jsonl").open("a") as file:
        file.write('{"event": "evaluated", "loss": 0.25, "accuracy": 0.5}\n')
    again = listed_runs(list_runs())
    assert again[0].said == "name"
    assert again[1].outcome["test_accuracy"] == 0.5
    assert again[2:] == fresh[2:]


def test_records_in_the_index_are_not_read(root: Path) -> None:
    before = list_runs()
    for path in root.glob("*/run.json"):
        with path.open("r+b") as file:
            file.write(b"#")
        os.utime(path, PAST)
    assert list_runs() == before


@pytest.mark.parametrize(
    "content",
    [b"", b"[1", b"[]", b"{}", b"{}\n{}", b'{"format": 2}\n{}', b"\n"],
)
def test_broken_index_is_made_anew(root: Path, content: bytes) -> None:
    expected = seen()
    index = root / ".index.json"
    whole = index.read_bytes()
    index.write_bytes(content)
    assert seen() == expected
    assert index.read_bytes() == whole


def test_rows_of_other_types_are_read_again(root: Path) -> None:
    expected = seen()
    index = root / ".index.json"
    rows = _rows(index)
    names = list(rows)
    rows[names[0]], rows[names[1]], rows[names[2]] = 1, [1, 2], [rows[names[2]][0], 3]
    rows[names[3]] = [[1, 2, 3], rows[names[4]][1]]
    text = json.dumps(rows)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    index.write_text(json.dumps({"format": 2, "sha256": checksum}) + f"\n{text}\n")
    assert seen() == expected


def test_index_that_cannot_be_read_or_written_does_no_harm(root: Path) -> None:
    expected = seen()
    (root / ".index.json").unlink()
    (root / ".index.json").mkdir()
    assert seen() == expected


def test_what_changes_is_seen_at_once(root: Path) -> None:
    first, second, *_ = _names(root)
    again = open_run(first).reopen()
    assert list_runs()[0].status is RunStatus.RUNNING
    again.close()
    assert list_runs()[0].status is RunStatus.KILLED
    os.utime(root / first / "run.json", PAST)
    assert list_runs()[0].status is RunStatus.KILLED
    (root / second / "run.json").unlink()
    record = RunRecord.create({}, "new")
    names = [run.run_id for run in list_runs()]
    assert record.run_id in names
    assert second not in names
    record.close()


def test_removed_records_leave_the_index(root: Path) -> None:
    for name in _names(root)[:-5]:
        (root / name / "run.json").unlink()
    assert len(list_runs()) == 5
    assert len(_rows(root / ".index.json")) == 5
