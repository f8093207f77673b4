"""What was typed or queued survives the end of the app, however it comes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.ui.conftest import MakeApp, Until, send_at_once
from tests.ui.runs.scripted_runs import ScriptedRunner
from tests.ui.screen_text import screen_text
from workbench.runs.events import RunStatus
from workbench.runs.waiting_runs import WaitingRun, WaitingRuns
from workbench.ui.app import WorkbenchApp


def values(app: WorkbenchApp) -> list[str]:
    """Return what is changed in the experiment that is on the screen."""
    return app.session.draft.overrides()


async def test_edits_are_open_again_after_quitting(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        send_at_once(app, "2", "enter", *"48", "enter", "q")
        await until(pilot, lambda: not app.is_running)
    again = make_app(preset="mnist-dense")
    async with again.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert values(again) == ["data.batch_size=48"]
        assert "•1 changed, reopened" in screen_text(again)
        await pilot.press("u")
        assert values(again) == []
    third = make_app(preset="mnist-dense")
    assert values(third) == []


async def test_edits_are_on_disk_before_anything_can_break(
    make_app: MakeApp, until: Until, home: Path
) -> None:
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        send_at_once(app, "2", "enter", *"48", "enter")
        await until(pilot, app.session.draft.changes)
        await pilot.pause()
        (file,) = (home / "drafts").iterdir()
        assert json.loads(file.read_text())["changes"] == {"data.batch_size": 48}


async def test_wrong_values_are_kept_too(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-dense")
    app.session.draft.set_text("data.batch_size", "many")
    app.session.store_draft()
    assert values(make_app(preset="mnist-dense")) == ["data.batch_size=many"]


async def test_edits_of_a_preset_that_is_gone_are_kept(
    make_app: MakeApp, home: Path
) -> None:
    app = make_app(preset="mnist-dense")
    app.session.draft.set({"data.batch_size": 48})
    app.session.store_draft()
    (file,) = (home / "drafts").iterdir()
    stored = json.loads(file.read_text())
    file.with_name("gone.json").write_text(json.dumps({**stored, "preset": "gone"}))
    again = make_app(preset="gone")
    assert again.session.current_preset == "gone"
    assert values(again) == ["data.batch_size=48"]


async def test_damaged_drafts_are_named_and_left_alone(
    make_app: MakeApp, home: Path
) -> None:
    (home / "drafts").mkdir(parents=True)
    (home / "drafts" / "broken.json").write_text("{")
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "broken.json" in screen_text(app)
    assert (home / "drafts" / "broken.json").exists()


async def queue_of_two(app: WorkbenchApp, pilot: object, until: Until) -> None:
    """Start one run and let another one wait."""
    await pilot.press("f5")  # type: ignore[attr-defined]
    first = app.runs.started[0]
    await until(pilot, lambda: first.view.progress is not None)  # type: ignore[arg-type]
    app.session.draft.set({"data.batch_size": 48})
    await pilot.press("f5")  # type: ignore[attr-defined]


async def test_quit_names_the_queue_and_keeps_it(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=8), preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await queue_of_two(app, pilot, until)
        await pilot.press("q")
        await pilot.pause()
        assert "mnist-dense, data.batch_size 48" in screen_text(app)
        await pilot.press("k")
        await until(pilot, lambda: not app.is_running)
    runner = ScriptedRunner()
    again = make_app(runner, preset="mnist-dense")
    async with again.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: again.runs.started)
        await pilot.pause()
        assert "1 run waits from last time" in screen_text(again)
        assert runner.started == []
        await pilot.press("tab", "r")
        await until(pilot, lambda: runner.started)
        await until(pilot, lambda: again.runs.active is None)
        assert again.runs.started[0].tables["data"]["batch_size"] == 48
    assert WaitingRuns().adopt() == []


async def test_quit_can_forget_the_queue(make_app: MakeApp, until: Until) -> None:
    app = make_app(ScriptedRunner(hold_after=8), preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await queue_of_two(app, pilot, until)
        await pilot.press("q", "f")
        await until(pilot, lambda: not app.is_running)
    assert app.runs.started[1].view.status is RunStatus.STOPPED
    assert WaitingRuns().adopt() == []


async def test_a_request_to_end_keeps_the_queue(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=8), preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await queue_of_two(app, pilot, until)
        app.handlers.leave()
        await until(pilot, lambda: not app.is_running)
    assert [run.preset for run in WaitingRuns().adopt()] == ["mnist-dense"]


def test_a_queue_belongs_to_the_app_that_is_alive(home: Path) -> None:
    run = WaitingRun("mnist-dense", {"train": {"epochs": 1}}, None)
    alive = WaitingRuns()
    alive.keep([run])
    assert WaitingRuns().adopt() == []
    alive.release()
    other = WaitingRuns()
    other.keep([run])
    other.release()
    assert WaitingRuns().adopt() == [run, run]
    assert WaitingRuns().adopt() == []
