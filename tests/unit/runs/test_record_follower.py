"""A run is shown from its record while another process appends to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.runs.event_json import event_line
from workbench.runs.events import Compiling, EpochEnded, Event, RunEnded, RunStatus
from workbench.runs.record_follower import RecordFollower
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    return RunRecord.create({"train": {"epochs": 2}}, "one.py")


def followed(record: RunRecord) -> RecordFollower:
    """Return a follower of the record."""
    return RecordFollower(open_run(record.run_id))


def said(follower: RecordFollower) -> list[tuple[float, str]]:
    """Return the messages so far, with their times."""
    return [(item.at, item.text) for item in follower.view.log]


def test_every_event_comes_once_and_with_its_time(record: RunRecord) -> None:
    follower = followed(record)
    assert not follower.behind
    assert not follower.follow()
    record.append_all([(Compiling("loading"), 1.5)])
    assert follower.behind
    assert follower.follow()
    assert not follower.behind
    record.append_all([(Compiling("training"), 2.5)])
    assert follower.follow()
    assert not follower.follow()
    assert said(follower) == [(1.5, "loading"), (2.5, "training")]


def test_a_line_that_is_being_written_waits_for_its_end(record: RunRecord) -> None:
    event: Event = Compiling("training")
    line = event_line(event, 3.0).encode()
    path = record.directory / "metrics.jsonl"
    follower = followed(record)
    path.write_bytes(line + line[:20])
    follower.catch_up()
    assert said(follower) == [(3.0, "training")]
    path.write_bytes(line + line)
    follower.catch_up()
    assert said(follower) == [(3.0, "training")] * 2


def test_what_is_damaged_is_left_out(record: RunRecord) -> None:
    line = event_line(Compiling("training"), 3.0).encode()
    damaged = b'{"event": "comp\n[1, 2]\n\xff\xfe\n{"event": "unheard of"}\n'
    (record.directory / "metrics.jsonl").write_bytes(damaged + line)
    follower = followed(record)
    follower.follow()
    assert said(follower) == [(3.0, "training")]


def test_what_a_resumed_run_does_again_counts_once(record: RunRecord) -> None:
    epochs = [EpochEnded(n, 1.0 / n, 0.5, 1.0, 100.0, 1.0) for n in (1, 2)]
    follower = followed(record)
    ended = [*epochs, RunEnded(RunStatus.STOPPED)]
    record.append_all([(event, 1.0) for event in ended])
    follower.follow()
    assert follower.view.status is RunStatus.STOPPED
    record.resumed(first_epoch=2)
    record.append_all([(EpochEnded(2, 0.3, 0.5, 1.0, 100.0, 1.0), 2.0)])
    follower.follow()
    assert follower.view.status is RunStatus.RUNNING
    assert [item.loss for item in follower.view.epochs] == [1.0, 0.3]
    assert follower.view.series.series().epochs["loss"].ys == (1.0, 0.3)
