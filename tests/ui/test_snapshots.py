"""Every screen as text, at the smallest and at a common size."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.five_runs import begin_at, record_five
from tests.ui.runs.scripted_runs import ScriptedRunner, training_events
from tests.ui.screen_text import check_snapshot, screen_text
from workbench.runs.events import InstancesSeen, InstanceState
from workbench.runs.run_store import StoredRun
from workbench.ui.app import WorkbenchApp

SIZES = [(80, 24), (120, 40)]
AREAS = {"start": "1", "configure": "2", "stages": "3", "report": "6", "script": "7"}


async def settle(pilot: Pilot[None], app: WorkbenchApp) -> None:
    """Wait until everything that was asked for is drawn."""
    await app.workers.wait_for_complete()
    app.runs.follow()
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("area", list(AREAS))
async def test_area(make_app: MakeApp, area: str, size: tuple[int, int]) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press(AREAS[area])
        await settle(pilot, app)
        check_snapshot(f"{area}-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_wrong_value(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    app.session.draft.set_text("execution.gradient_accumulation", "6")
    async with app.run_test(size=size) as pilot:
        await pilot.press("2")
        await settle(pilot, app)
        await pilot.press(*["down"] * 21)
        await pilot.pause()
        check_snapshot(f"wrong-value-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_live_run(make_app: MakeApp, until: Until, size: tuple[int, int]) -> None:
    app = make_app(ScriptedRunner(hold_after=18))
    async with app.run_test(size=size) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.events_seen == 19)
        app.main.area.refresh_area()
        await pilot.pause()
        check_snapshot(f"run-live-{size[0]}x{size[1]}", screen_text(app))
        run.control.stop.set()


@pytest.mark.parametrize("panel", ["", "-epochs"])
@pytest.mark.parametrize("size", SIZES)
async def test_run_of_instances(
    make_app: MakeApp, until: Until, size: tuple[int, int], panel: str
) -> None:
    seen = InstancesSeen(
        (
            InstanceState("node-1", 4101, 20, 15.2, 11.4),
            InstanceState("node-2", 3977, 20, 15.6, 13.0),
        )
    )
    events = training_events()
    runner = ScriptedRunner([*events[:18], seen, *events[18:]], hold_after=19)
    app = make_app(runner, preset="mnist-popdist")
    async with app.run_test(size=size) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.events_seen == 20)
        app.main.area.refresh_area()
        await pilot.pause()
        if panel:
            await pilot.press("shift+tab")
            await pilot.pause()
        name = f"run-instances{panel}-{size[0]}x{size[1]}"
        check_snapshot(name, screen_text(app))
        run.control.stop.set()


@pytest.mark.parametrize("size", SIZES)
async def test_finished_run(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("f5")
        await settle(pilot, app)
        check_snapshot(f"run-finished-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_comparison(
    make_app: MakeApp, until: Until, two_runs: list[StoredRun], size: tuple[int, int]
) -> None:
    for hour, run in enumerate(two_runs, start=9):
        begin_at(run, hour)
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.runs.records) == 2)
        app.handlers.marked.keys[:] = [run.run_id for run in two_runs]
        await pilot.press("5")
        await settle(pilot, app)
        check_snapshot(f"compare-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_comparison_of_five(
    make_app: MakeApp, until: Until, size: tuple[int, int]
) -> None:
    keys = record_five()
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.runs.records) == 5)
        app.handlers.marked.keys[:] = keys
        await pilot.press("5")
        await settle(pilot, app)
        check_snapshot(f"compare-five-{size[0]}x{size[1]}", screen_text(app))
        await pilot.press("right", "right", "right", "x")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await settle(pilot, app)
        check_snapshot(f"explain-{size[0]}x{size[1]}", screen_text(app))


async def test_schedules(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        await pilot.press("k")
        await pilot.pause()
        check_snapshot("schedules-120x40", screen_text(app))


async def test_help(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, app)
        await pilot.press("question_mark")
        await pilot.pause()
        check_snapshot("help-80x24", screen_text(app))


async def test_question_before_stopping(make_app: MakeApp, until: Until) -> None:
    app = make_app(ScriptedRunner(hold_after=4))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.events_seen == 5)
        app.main.area.refresh_area()
        await pilot.press("s")
        await pilot.pause()
        check_snapshot("stop-80x24", screen_text(app))
        run.control.stop.set()


async def test_ascii(make_app: MakeApp) -> None:
    app = make_app(ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f5")
        await settle(pilot, app)
        check_snapshot("run-ascii-80x24", screen_text(app))
