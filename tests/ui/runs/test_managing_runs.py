"""Runs can be found, told apart, forked, varied and deleted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.ui.conftest import MakeApp, Until, send_at_once
from tests.ui.runs.scripted_runs import ScriptedRunner, record_run
from tests.ui.screen_text import check_snapshot, screen_text
from workbench.runs import run_record
from workbench.runs.events import Paused, Progressed, RunStatus, WentOn
from workbench.runs.run_notes import RunNotes, read_notes, write_notes
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs, open_run
from workbench.runs.run_view import RunView


def three_runs() -> list[str]:
    """Leave three runs, the first with notes."""
    runs = [
        record_run("mnist-dense", ["data.batch_size=16"], rate=15.0),
        record_run("mnist-ipu", status=RunStatus.STOPPED),
        record_run("mnist-dense", rate=60.0),
    ]
    notes = RunNotes("small batches", "for the talk", ("best",), True)
    write_notes(open_run(runs[0]).directory, notes)
    return runs


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_table_of_all_runs(
    make_app: MakeApp, until: Until, size: tuple[int, int]
) -> None:
    runs = three_runs()
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.runs.records) == 3)
        await pilot.press("L")
        await pilot.pause()
        check_snapshot(f"runs-{size[0]}x{size[1]}", screen_text(app))
        send_at_once(app, "slash", *"batch_size=16", "enter")
        await until(pilot, lambda: "1 of 3" in screen_text(app))
        assert runs[0] in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "3 of 3" in screen_text(app))


async def test_a_long_note_is_read_in_full(make_app: MakeApp, until: Until) -> None:
    note = "much longer than what a line of the table can hold, twice, " * 2 + "or so"
    write_notes(open_run(record_run("mnist-dense")).directory, RunNotes("", note))
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("L")
        await pilot.pause()
        assert note in " ".join(screen_text(app).replace("│", " ").split())


async def test_notes_tags_names_and_pins(make_app: MakeApp, until: Until) -> None:
    run_id = record_run("mnist-dense")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        send_at_once(app, "L", "n", *"why", "enter", "t", *"a,b", "enter", "P")
        send_at_once(app, "e", *"mine", "enter")
        notes = RunNotes("mine", "why", ("a", "b"), True)
        await until(pilot, lambda: read_notes(open_run(run_id).directory) == notes)
        await pilot.pause()
        assert "mine  why #a #b" in screen_text(app)


async def test_delete_asks_first(make_app: MakeApp, until: Until) -> None:
    record_run("mnist-dense")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("L", "D")
        await pilot.pause()
        assert "Its curves, checkpoints and log are lost" in " ".join(
            screen_text(app).replace("│", " ").split()
        )
        await pilot.press("enter")
        assert len(list_runs()) == 1
        await pilot.press("D", "y")
        await until(pilot, lambda: not list_runs())
        await until(pilot, lambda: "no runs yet" in screen_text(app))


async def test_run_again_with_one_field_changed(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-dense", ["data.batch_size=16"])
    runner = ScriptedRunner()
    app = make_app(runner)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        send_at_once(app, "L", "v", *"train.epochs=1", "enter")
        await until(pilot, lambda: runner.started and app.main.area.name == "run")
        tables = app.runs.started[0].tables
        assert tables["train"]["epochs"] == 1
        assert tables["data"]["batch_size"] == 16


async def test_fork_of_a_listed_run(make_app: MakeApp, until: Until) -> None:
    record_run("mnist-dense", ["data.batch_size=16"])
    app = make_app(preset="mnist-ipu")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("L", "f")
        await until(pilot, lambda: app.main.area.name == "configure")
        assert app.session.current_preset == "mnist-dense"
        assert app.session.draft.overrides() == ["data.batch_size=16"]


async def test_followed_run_shows_its_time_left_and_state(
    make_app: MakeApp, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_700_000_000.0]
    clock = SimpleNamespace(time=lambda: now[0])
    monkeypatch.setattr(run_record, "time", clock)
    record = RunRecord.create({"train": {"epochs": 2}}, "mnist-dense")
    for step in (10, 20):
        record.append(Progressed(1, step, 40, 0.5, 0.8, 1.0, 100.0))
        now[0] += 30.0
    record.append(Paused())
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert "‖ paused" in screen_text(app)
        assert "3 min 00 s left" in screen_text(app)
    record.append(WentOn())
    record.close()


def test_pauses_do_not_count_for_the_time_left() -> None:
    monitor = RunView("mnist-dense", 1, status=RunStatus.RUNNING)
    for at, event in (
        (0.0, Progressed(1, 10, 40, 0.5, 0.8, 1.0, 100.0)),
        (1.0, Paused()),
        (1001.0, WentOn()),
        (1010.0, Progressed(1, 20, 40, 0.5, 0.8, 1.0, 100.0)),
    ):
        monitor.add(event, at)
    assert monitor.seconds_left == pytest.approx(20.0)
