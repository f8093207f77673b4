"""Records: complete or absent, one writer, readable whatever was cut off."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from pathlib import Path

import pytest

from ipu_runtime.system.file_replacing import replace_file
from workbench import store_json
from workbench.locations import runs_directory
from workbench.runs import run_record
from workbench.runs.events import (
    EpochEnded,
    Evaluated,
    Progressed,
    RunEnded,
    RunStatus,
)
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs, open_run
from workbench.store_json import RecordError, UnknownRecord, replace_json

TABLES = {"experiment": {"name": "tiny", "seed": 3}, "data": {"batch_size": 8}}


def _epoch(epoch: int, loss: float) -> EpochEnded:
    return EpochEnded(epoch, loss, 0.5, 1.0, 2.0, 3.0)


def test_a_finished_run_is_read_back_as_it_was_written() -> None:
    record = RunRecord.create(TABLES, "tiny")
    record.append(Progressed(1, 5, 10, 0.75, None, 1.5, 20.0))
    record.append(_epoch(1, 0.5))
    record.append(Evaluated(0.4, 0.9))
    record.finish(RunStatus.FINISHED, summary={"loss": 0.5})

    run = open_run(record.run_id)

    assert run.status is RunStatus.FINISHED
    assert run.tables == TABLES
    assert run.summary == {"loss": 0.5}
    assert run.events() == [
        Progressed(1, 5, 10, 0.75, None, 1.5, 20.0),
        _epoch(1, 0.5),
        Evaluated(0.4, 0.9),
    ]


def test_damaged_lines_are_left_out_and_what_follows_is_kept() -> None:
    record = RunRecord.create(TABLES, "tiny")
    record.append(_epoch(1, 0.5))
    metrics = record.directory / "metrics.jsonl"
    with metrics.open("ab") as stream:
        stream.write(b'\xff\xfe garbage\n[1]\n{"event":"epoch_ended"}\n{"event":"epo')
    record.append(_epoch(2, 0.25))
    record.close()

    assert open_run(record.run_id).events() == [_epoch(1, 0.5), _epoch(2, 0.25)]
    assert b'{"event":"epo\n' in metrics.read_bytes()


def test_a_loss_that_is_not_a_number_stays_strict_json() -> None:
    record = RunRecord.create(TABLES, "tiny")
    record.append(_epoch(1, float("nan")))
    record.close()

    text = (record.directory / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["loss"] is None
    (event,) = open_run(record.run_id).events()
    assert isinstance(event, EpochEnded)
    assert event.loss != event.loss


def test_a_checkpoint_that_a_kill_has_cut_is_removed_before_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = RunRecord.create({}, "x")
    own = record.checkpoints / ".own"
    own.touch()
    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", lambda *_, **__: 1 / 0)
        killed.setattr(os, "unlink", lambda *_, **__: None)
        with pytest.raises(ZeroDivisionError):
            replace_file(record.checkpoints / "epoch-000001.npz", b"cut")
    record.close()
    assert len(list(record.checkpoints.iterdir())) == 2
    open_run(record.run_id).reopen().close()
    assert list(record.checkpoints.iterdir()) == [own]


def test_what_a_resumed_run_repeats_counts_once() -> None:
    record = RunRecord.create(TABLES, "tiny")
    record.append(_epoch(1, 0.5))
    record.append(_epoch(2, 0.4))
    record.append(Progressed(3, 5, 10, 0.3, None, 1.0, 2.0))
    record.append(RunEnded(RunStatus.STOPPED))
    record.finish(RunStatus.STOPPED)
    again = open_run(record.run_id).reopen()
    again.resumed(2)
    again.append(_epoch(2, 0.4))
    again.append(_epoch(3, 0.2))
    again.finish(RunStatus.FINISHED)

    run = open_run(record.run_id)
    assert run.events() == [_epoch(1, 0.5), _epoch(2, 0.4), _epoch(3, 0.2)]
    assert run.status is RunStatus.FINISHED


def test_there_is_no_second_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_json, "_LOCK_PATIENCE_S", 0.02)
    record = RunRecord.create(TABLES, "tiny")

    with pytest.raises(RecordError, match=rf"{record.run_id} is being .*{os.getpid()}"):
        open_run(record.run_id).reopen()

    assert open_run(record.run_id).status is RunStatus.RUNNING
    record.finish(RunStatus.FINISHED)


def test_a_run_whose_process_was_killed_shows_as_killed() -> None:
    code = (
        "import time\n"
        "from workbench.runs.run_record import RunRecord\n"
        f"print(RunRecord.create({TABLES!r}, 'tiny').run_id, flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    before = open_run(run_id)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert (before.status, before.pid) == (RunStatus.RUNNING, process.pid)
    assert open_run(run_id).status is RunStatus.KILLED


def test_runs_started_at_once_do_not_meet_and_sort_by_age() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: RunRecord.create(TABLES, "tiny"), range(40)))
    for record in made:
        record.finish(RunStatus.FINISHED)

    runs = list_runs()
    assert len({run.run_id for run in runs}) == len(runs) == 40
    assert [run.number for run in runs] == list(range(40, 0, -1))


@pytest.mark.parametrize("name", ["..", "../x", "/etc", "", ".", "a/b", "a\0b", ".new"])
def test_names_never_leave_the_directory(name: str) -> None:
    with pytest.raises(RecordError, match="is not the id of a run"):
        open_run(name)
    if name:
        with pytest.raises(RecordError, match="group"):
            RunRecord.create(TABLES, "tiny", group=name)


def test_a_run_is_found_by_the_beginning_of_its_id_or_as_latest() -> None:
    record = RunRecord.create(TABLES, "tiny")
    record.finish(RunStatus.FINISHED)

    assert open_run(record.run_id[:9]).run_id == record.run_id
    assert open_run("latest").run_id == record.run_id
    with pytest.raises(RecordError, match="there is no run 'x'"):
        open_run("x")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b'{"format": 1, "status": "fini', "it is not JSON"),
        (b"\xff\xfe\x00", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[1, 2]", "it holds no object"),
        (b" " * (16 * 2**20 + 1), "it is larger than 16 MiB"),
        (None, "No such file or directory"),
    ],
    ids=["empty", "cut", "bytes", "deep", "list", "large", "missing"],
)
def test_a_record_that_cannot_be_read_is_there_and_says_why(
    content: bytes | None, reason: str
) -> None:
    record = RunRecord.create(TABLES, "tiny")
    record.finish(RunStatus.FINISHED)
    description = record.directory / "run.json"
    description.unlink()
    if content is not None:
        description.write_bytes(content)
    with pytest.raises(RecordError) as raised:
        open_run(record.run_id)
    assert not isinstance(raised.value, UnknownRecord)
    assert str(raised.value) == f"{description} cannot be read: {reason}"


def test_a_full_disk_leaves_the_old_file_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = RunRecord.create(TABLES, "tiny")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RecordError, match="the disk is full: free some space"):
            record.mark(RunStatus.FINISHED)
    record.close()

    run = open_run(record.run_id)
    assert run.tables == TABLES
    assert run.status is RunStatus.KILLED
    assert sorted(path.name for path in record.directory.iterdir()) == [
        "checkpoints",
        "lock",
        "run.json",
        "run.log",
    ]


def test_a_directory_that_cannot_be_made_is_one_clear_message() -> None:
    root = runs_directory()
    root.parent.mkdir(parents=True)
    root.write_text("in the way")

    with pytest.raises(RecordError, match=r"cannot write .*runs: File exists"):
        RunRecord.create(TABLES, "tiny")
    assert list_runs() == []


def test_replaced_files_are_readable_by_others(tmp_path: Path) -> None:
    replace_json(tmp_path / "a.json", {"a": (1, float("inf"))})

    assert json.loads((tmp_path / "a.json").read_text()) == {"a": [1, None]}
    assert (tmp_path / "a.json").stat().st_mode & stat.S_IRUSR
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_full_disk_has_room_to_say_that_the_run_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = RunRecord.create({}, "full")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store_json, "replace_file", full)
    record.finish(RunStatus.FAILED, "no space left")
    run = open_run(record.run_id)
    assert (run.status, run.message) == (RunStatus.FAILED, "no space left")


class WrongClock(datetime):
    """Says what the test wants."""

    year_now = 2026

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> WrongClock:
        return cls(cls.year_now, 1, 2, 3, 4, 5, tzinfo=tz)


def test_runs_keep_their_order_under_a_clock_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_record, "datetime", WrongClock)
    begun = []
    for year in (2026, 2099, 1970, 2126, 2027):
        monkeypatch.setattr(WrongClock, "year_now", year)
        record = RunRecord.create(TABLES, "tiny")
        record.finish(RunStatus.FINISHED)
        begun.append(record.run_id)
        assert open_run("latest").run_id == record.run_id
    assert begun[0] == "20260102-030405"
    assert begun[3] == "21260102-030405"
    assert [run.run_id for run in list_runs()] == begun[::-1]


def test_runs_from_elsewhere_are_no_newer_than_those_of_the_store() -> None:
    first = RunRecord.create(TABLES, "tiny")
    first.finish(RunStatus.FINISHED)
    foreign = RunRecord.create(TABLES, "tiny")
    foreign.finish(RunStatus.FINISHED)
    path = foreign.directory / "run.json"
    row = json.loads(path.read_text()) | {"number": 10**9, "created": "2999"}
    path.write_text(json.dumps(row))
    assert open_run("latest").run_id == first.run_id
    again = RunRecord.create(TABLES, "tiny")
    again.close()
    assert open_run("latest").run_id == again.run_id


@pytest.mark.parametrize("content", ["", "[]", '{"last": "x"}', '{"last": -5}', None])
def test_numbers_survive_the_loss_of_their_file(content: str | None) -> None:
    for _ in range(2):
        RunRecord.create(TABLES, "tiny").close()
    number = runs_directory() / ".number.json"
    number.unlink()
    if content is not None:
        number.write_text(content)
    newest = RunRecord.create(TABLES, "tiny")
    newest.close()
    assert open_run("latest").run_id == newest.run_id
