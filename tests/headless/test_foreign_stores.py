"""A store that came from elsewhere: no link in it is followed, no pipe waited for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.cases import Outcome, command
from workbench.experiment.preset_store import load_preset
from workbench.models.model_source import parse_source
from workbench.models.source_files import content_key
from workbench.runs.events import EpochEnded, RunStatus
from workbench.runs.run_checkpoint import Checkpoint, save
from workbench.runs.run_notes import RunNotes, write_notes
from workbench.runs.run_record import RunRecord
from workbench.store_index import WORTH_WRITING

VICTIM = "what the user had\n"
FILES = (
    "run.json",
    "metrics.jsonl",
    "run.log",
    "plan.json",
    "notes.json",
    "lock",
    "checkpoints/epoch-000001.npz",
)
COMMANDS = (
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("runs", "show", "RUN"),
    ("runs", "note", "RUN", "text"),
    ("runs", "tag", "RUN", "text"),
    ("runs", "compare", "RUN", "RUN"),
    ("runs", "export", "RUN"),
    ("report", "RUN", "--html", "page.html"),
    ("run", "--resume", "RUN"),
    ("runs", "delete", "--yes", "RUN"),
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(VICTIM)
    return path


def _record() -> RunRecord:
    record = RunRecord.create(load_preset("mnist-dense").tables, "mnist-dense")
    record.append(EpochEnded(1, 1.5, 0.5, 1.0, 50.0, 2.0))
    record.write_plan({})
    write_notes(record.directory, RunNotes("name"))
    save(record.checkpoints, Checkpoint(1, (), ()))
    record.finish(RunStatus.STOPPED)
    return record


def _try_all(run_id: str, tmp_path: Path) -> list[Outcome]:
    os.chdir(tmp_path)
    return [
        command(*(run_id if word == "RUN" else word for word in words))
        for words in COMMANDS
    ]


def _as_link(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to(victim)


def _as_pipe(path: Path, victim: Path) -> None:
    del victim
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replaced", [_as_link, _as_pipe])
@pytest.mark.parametrize("file", FILES)
def test_no_command_follows_or_waits_for_a_file_that_is_none(
    replaced: Callable[[Path, Path], None],
    file: str,
    victim: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    record = _record()
    replaced(record.directory / file, victim)
    listed, *_, resumed, deleted = _try_all(record.run_id, tmp_path)
    assert victim.read_text() == VICTIM
    assert record.run_id in listed.out
    assert file in resumed.err
    assert "may not hold" in resumed.err
    assert deleted.code == 0
    assert not record.directory.exists()


@pytest.mark.parametrize("file", FILES[:-1])
def test_lists_name_what_is_damaged(file: str, victim: Path) -> None:
    record = _record()
    _as_link(record.directory / file, victim)
    listed = command("runs", "list").out
    assert f"{record.run_id}" in listed
    assert "damaged" in listed
    shown = command("runs", "show", record.run_id)
    assert f"{file} is a link" in shown.err


def test_a_run_that_is_a_link_is_damaged_and_nothing_behind_it_is_read(
    home: Path, tmp_path: Path
) -> None:
    elsewhere = _record().directory.rename(tmp_path / "elsewhere")
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    (home / "runs" / "260101-000000").symlink_to(elsewhere)
    assert "damaged" in command("runs", "list").out
    _try_all("260101-000000", tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    assert not (home / "runs" / "260101-000000").is_symlink()


@pytest.mark.parametrize("part", ["checkpoints", "plans", "instances"])
def test_a_directory_of_a_record_that_is_a_link_is_not_followed(
    part: str, tmp_path: Path
) -> None:
    record = _record()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f".{'0' * 16}.new").write_text(VICTIM)
    save(elsewhere, Checkpoint(7, (), ()))
    own = record.directory / part
    own.mkdir(exist_ok=True)
    own.rename(tmp_path / "moved")
    own.symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    resumed = command("run", "--resume", record.run_id)
    assert f"{part} is a link" in resumed.err
    assert command("runs", "delete", "--yes", record.run_id).code == 0
    assert sorted(elsewhere.iterdir()) == before


def test_an_index_that_is_a_link_is_left_alone(home: Path, victim: Path) -> None:
    for _ in range(WORTH_WRITING + 1):
        record = _record()
        os.utime(record.directory / "run.json", (1, 1))
        os.utime(record.directory, (1, 1))
    (home / "runs" / ".index.json").symlink_to(victim)
    assert command("runs", "list").code == 0
    assert victim.read_text() == VICTIM


@pytest.mark.parametrize("file", ["lock", "sweep.json", "points.jsonl", "sweep.log"])
def test_a_sweep_with_a_link_overwrites_nothing(
    file: str, home: Path, victim: Path
) -> None:
    sweep = ("sweep", "mnist-dense", "--plan-only", "--group=s")
    assert command(*sweep, "--grid=data.batch_size=16,32").code == 0
    path = home / "sweeps" / "s" / file
    path.unlink(missing_ok=True)
    path.symlink_to(victim)
    command("sweep", "--resume=s")
    assert victim.read_text() == VICTIM


def test_the_store_itself_may_be_a_link(home: Path, tmp_path: Path) -> None:
    disk = tmp_path / "large disk"
    disk.mkdir()
    home.mkdir()
    (home / "runs").symlink_to(disk)
    record = _record()
    assert (disk / record.run_id / "run.json").is_file()
    listed = command("runs", "list", "--json").out
    assert json.loads(listed)["run_id"] == record.run_id


def _evil(tmp_path: Path) -> tuple[Path, str]:
    ran = tmp_path / "ran"
    code = f"open({str(ran)!r}, 'w')\ndef build(): ...\n"
    (tmp_path / "evil.py").write_text(code)
    return ran, f"{tmp_path / 'evil.py'}:build"


def _with_code(tables: dict[str, Any], path: str, named: str) -> dict[str, Any]:
    section, _, key = path.partition(".")
    table = {name: row for name, row in tables[section].items() if name != "layers"}
    return {**tables, section: {**table, key: named, "trusted": True}}


@pytest.mark.parametrize("path", ["model.source", "data.dataset"])
@pytest.mark.parametrize("content", [None, "", "of the source"])
def test_a_record_from_elsewhere_runs_no_code(
    path: str,
    content: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    record = _record()
    ran, named = _evil(tmp_path)
    description = json.loads((record.directory / "run.json").read_text())
    tables = _with_code(description["spec"], path, named)
    if content is not None:
        known = content_key(parse_source(named, (784,))) if content else ""
        tables[path.partition(".")[0]]["content"] = known
    (record.directory / "run.json").write_text(
        json.dumps({**description, "spec": tables})
    )
    for words in (
        *COMMANDS[:-1],
        ("export", "RUN"),
        ("export", "RUN", "--trust"),
        ("runs", "compare", "--explain", "RUN", "RUN"),
    ):
        command(*(record.run_id if w == "RUN" else w for w in words))
        assert not ran.exists()
    assert command("export", record.run_id).code == 2


@pytest.mark.parametrize("path", ["model.source", "data.dataset"])
def test_a_sweep_from_elsewhere_runs_no_code(
    path: str, home: Path, tmp_path: Path
) -> None:
    grid = ("--plan-only", "--grid=data.batch_size=16,32", "--group=s")
    assert command("sweep", "mnist-dense", *grid).code == 0
    ran, named = _evil(tmp_path)
    file = home / "sweeps" / "s" / "sweep.json"
    sweep = json.loads(file.read_text())
    sweep |= {"tables": _with_code(sweep["tables"], path, named)}
    file.write_text(json.dumps(sweep))
    (home / "sweeps" / "s" / "points.jsonl").write_text("")
    resumed = command("sweep", "--resume=s")
    assert resumed.code == 2
    assert "--trust" in resumed.err
    assert not ran.exists()
    # No point is held for one that cannot run: it was not its fault.
    assert (home / "sweeps" / "s" / "points.jsonl").read_text() == ""
