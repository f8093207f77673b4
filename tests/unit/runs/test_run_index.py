"""The index of records: quick, and never believed against the records."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from workbench.core.runs.events import RunStatus
from workbench.core.runs.run_record import RunRecord
from workbench.core.runs.run_store import StoredRun, list_runs, open_run

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
        os.utime(record.directory / "run.json", PAST)
        os.utime(record.directory, PAST)
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
    assert len(json.loads(index.read_text())["records"]) == COUNT
    with_index = seen()
    index.unlink()
    assert seen() == with_index == [told(open_run(name)) for name in _names(root)]
    assert index.exists()
    assert len(list_runs("odd")) == COUNT // 2


def _names(root: Path) -> list[str]:
    return sorted(
        (path.name for path in root.iterdir() if path.name[0] != "."), reverse=True
    )


def test_records_in_the_index_are_not_read(root: Path) -> None:
    before = list_runs()
    for path in root.glob("*/run.json"):
        with path.open("r+b") as file:
            file.write(b"#")
        os.utime(path, PAST)
    assert list_runs() == before


@pytest.mark.parametrize(
    "content",
    [b"", b"[1", b"[]", b"{}", b'{"format": 1, "records": []}', b'{"format": 2}'],
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
    rows = json.loads(index.read_text())["records"]
    names = list(rows)
    rows[names[0]], rows[names[1]], rows[names[2]] = 1, [1, 2], [rows[names[2]][0], 3]
    rows[names[3]] = [[1, 2, 3], rows[names[4]][1]]
    index.write_text(json.dumps({"format": 1, "records": rows}))
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
    assert len(json.loads((root / ".index.json").read_text())["records"]) == 5
