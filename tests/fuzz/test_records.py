"""Records that were cut or corrupted at any byte are read as far as they can be."""

from __future__ import annotations

import ast
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.cases import cases, command
from tests.fuzz.hostile import changed_tables, damaged, values
from workbench.editing.draft import check_tables
from workbench.experiment.preset_store import load_preset
from workbench.runs.event_json import event_to_json, to_line
from workbench.runs.events import (
    Compiled,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs, open_run
from workbench.runs.run_view import RunView

PRESET = "mnist-dense"
EVENTS: tuple[Event, ...] = (
    RunStarted("ID", PRESET, {}),
    Compiled("train", 1.5, 60.0),
    Progressed(1, 5, 10, 2.0, 0.25, 1.0, 50.0),
    Progressed(1, 10, 10, 1.5, 0.5, 1.0, 50.0),
    EpochEnded(1, 1.5, 0.5, 1.0, 50.0, 2.0),
    Evaluated(1.25, 0.625),
    RunEnded(RunStatus.FINISHED, "", {"seconds": 3.0, "epochs": 1}),
)
LINES = "".join(to_line(event_to_json(event)) for event in EVENTS).encode()


@pytest.fixture
def run(home: Path) -> Path:
    record = RunRecord.create(load_preset(PRESET).tables, PRESET)
    for event in EVENTS:
        record.append(event)
    record.finish(RunStatus.FINISHED, "", {"seconds": 3.0, "epochs": 1})
    return record.directory


def _read_everywhere(directory: Path) -> None:
    """Let every command read the record that knows how to."""
    name = directory.name
    command("runs", "list")
    command("runs", "show", name)
    command("runs", "compare", name, name)
    command("runs", "export", name)
    command("runs", "export", name, "--format", "json")
    page, script = directory.parent.parent / "x.html", directory.parent.parent / "x.py"
    if command("report", name, "--html", str(page)).code == 0:
        text = page.read_text(encoding="utf-8").lower()
        assert "<script" not in text
        assert "<img" not in text
    if command("export", name, "--script", str(script)).code == 0:
        ast.parse(script.read_text(encoding="utf-8"))
    for stored in list_runs():
        stored.series()
        # The app shows a record through these.
        check_tables(stored.tables)
        monitor = RunView.of(stored.preset, stored.tables, stored.timed_events())
        assert 0 <= monitor.fraction <= 1


@cases
@given(data=st.data())
def test_metrics_cut_or_corrupted_at_any_byte(run: Path, data: st.DataObject) -> None:
    damaged_lines = data.draw(damaged(LINES))
    (run / "metrics.jsonl").write_bytes(damaged_lines)
    _read_everywhere(run)
    kept = [e for e in open_run(run.name).events() if isinstance(e, Progressed)]
    whole = [line for line in LINES.split(b"\n") if b'"progress"' in line]
    untouched = sum(line in damaged_lines.split(b"\n") for line in whole)
    assert len(kept) >= untouched


@cases
@given(data=st.data())
def test_metrics_of_other_types(run: Path, data: st.DataObject) -> None:
    rows = [event_to_json(event) for event in EVENTS]
    rows.append({"event": "resumed", "first_epoch": 2})
    changed = [data.draw(changed_tables(row)) for row in rows]
    text = "\n".join(json.dumps(row) for row in changed)
    (run / "metrics.jsonl").write_text(text, encoding="utf-8")
    _read_everywhere(run)


@cases
@given(data=st.data())
def test_descriptions_cut_or_corrupted_at_any_byte(
    run: Path, data: st.DataObject
) -> None:
    path = run / "run.json"
    content = path.read_bytes()
    try:
        path.write_bytes(data.draw(damaged(content)))
        _read_everywhere(run)
    finally:
        path.write_bytes(content)


@cases
@given(data=st.data())
def test_descriptions_of_other_types(run: Path, data: st.DataObject) -> None:
    path = run / "run.json"
    content = path.read_bytes()
    description: Any = json.loads(content)
    changed = data.draw(
        changed_tables(description)
        | st.fixed_dictionaries(dict.fromkeys(description, values))
    )
    try:
        path.write_text(json.dumps(changed), encoding="utf-8")
        _read_everywhere(run)
    finally:
        path.write_bytes(content)


@cases
@given(data=st.data())
def test_points_of_sweeps_cut_or_corrupted_at_any_byte(
    home: Path, data: st.DataObject
) -> None:
    shutil.rmtree(home / "sweeps", ignore_errors=True)
    grid = ("--plan-only", "--grid=data.batch_size=16,32,64")
    assert command("sweep", PRESET, *grid, "--group=s").code == 0
    name = data.draw(st.sampled_from(["points.jsonl", "sweep.json"]))
    path = home / "sweeps" / "s" / name
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    command("sweep", "--resume=s")


@cases
@given(data=st.data())
def test_links_and_pipes_anywhere_in_a_store(home: Path, data: st.DataObject) -> None:
    shutil.rmtree(home, ignore_errors=True)
    victim = home.with_name("victim")
    victim.mkdir(exist_ok=True)
    (victim / "file").write_text("before")
    record = RunRecord.create(load_preset(PRESET).tables, PRESET)
    for event in EVENTS:
        record.append(event)
    record.finish(RunStatus.STOPPED, "", {"seconds": 3.0})
    grid = ("--plan-only", "--grid=data.batch_size=16,32")
    assert command("sweep", PRESET, *grid, "--group=s").code == 0
    inside = sorted(
        path
        for path in home.rglob("*")
        if path not in (home / "runs", home / "sweeps", home / "models")
    )
    free = [home / "runs" / ".index.json", record.directory / "notes.json"]
    place = data.draw(st.sampled_from([*inside, *free]))
    was_directory = place.is_dir()
    if was_directory:
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    kind = data.draw(st.sampled_from(("file", "directory", "nothing", "pipe")))
    target = {"file": victim / "file", "directory": victim}.get(kind, home / "gone")
    os.mkfifo(place) if kind == "pipe" else place.symlink_to(target)
    for _ in range(2):
        _read_everywhere(record.directory)
        command("runs", "note", record.run_id, "text")
        command("runs", "tag", record.run_id, "tag")
        command("sweep", "--resume=s")
    resumable = place.is_relative_to(record.directory)
    if resumable and place.name != record.run_id:
        assert command("run", "--resume", record.run_id).code != 0
    command("runs", "delete", "--yes", record.run_id)
    assert [path.name for path in victim.iterdir()] == ["file"]
    assert (victim / "file").read_text() == "before"


@cases
@given(data=st.data())
def test_foreign_records_that_name_code(run: Path, data: st.DataObject) -> None:
    ran, evil = run.with_name("ran"), run.parent.parent / "evil.py"
    evil.write_text(f"open({str(ran)!r}, 'w')\ndef build(): ...\n")
    path = run / "run.json"
    content = path.read_bytes()
    description: Any = json.loads(content)
    tables = description["spec"]
    section, key = data.draw(
        st.sampled_from((("model", "source"), ("data", "dataset")))
    )
    tables[section][key] = f"{evil}:build"
    said = st.sampled_from((True, "", "0" * 64, None, 1)) | values
    for name in ("trusted", "content"):
        if data.draw(st.booleans()):
            tables[section][name] = data.draw(said)
    if data.draw(st.booleans()):
        tables["model"].pop("layers", None)
    description["status"] = "stopped"
    try:
        path.write_text(json.dumps(description), encoding="utf-8")
        _read_everywhere(run)
        assert command("run", "--resume", run.name).code != 0
        command("export", run.name, "--trust")
    finally:
        path.write_bytes(content)
    assert not ran.exists()
