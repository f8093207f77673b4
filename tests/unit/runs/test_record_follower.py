"""A record is read while another process appends to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.runs.event_json import event_line
from workbench.runs.events import Compiling, Event, RunStarted
from workbench.runs.record_follower import RecordFollower
from workbench.runs.run_record import RunRecord


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    return RunRecord.create({}, "one.py")


def test_every_event_comes_once_and_with_its_time(record: RunRecord) -> None:
    follower = RecordFollower(record.directory)
    assert not follower.behind
    assert follower.new_events() == []
    first, second = RunStarted("1", "one.py", {}), Compiling("training")
    record.append_all([(first, 1.5)])
    assert follower.behind
    assert follower.new_events() == [(first, 1.5)]
    assert not follower.behind
    record.append_all([(second, 2.5)])
    assert follower.new_events() == [(second, 2.5)]
    assert follower.new_events() == []


def test_a_line_that_is_being_written_waits_for_its_end(record: RunRecord) -> None:
    event: Event = Compiling("training")
    line = event_line(event, 3.0).encode()
    path = record.directory / "metrics.jsonl"
    follower = RecordFollower(record.directory)
    path.write_bytes(line + line[:20])
    assert follower.new_events() == [(event, 3.0)]
    path.write_bytes(line + line)
    assert follower.new_events() == [(event, 3.0)]


def test_what_is_damaged_is_left_out(record: RunRecord) -> None:
    event: Event = Compiling("training")
    line = event_line(event, 3.0).encode()
    damaged = b'{"event": "comp\n[1, 2]\n\xff\xfe\n{"event": "unheard of"}\n'
    (record.directory / "metrics.jsonl").write_bytes(damaged + line)
    assert RecordFollower(record.directory).new_events() == [(event, 3.0)]


def test_a_resumed_record_is_known_to_be_rewritten(record: RunRecord) -> None:
    follower = RecordFollower(record.directory)
    record.append_all([(Compiling("training"), 1.0)])
    follower.new_events()
    assert not follower.rewritten
    record.resumed(first_epoch=1)
    follower.new_events()
    assert follower.rewritten
