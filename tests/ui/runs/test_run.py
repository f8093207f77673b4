"""Watching runs, with scripted events."""

from __future__ import annotations

import re

from tests.ui.conftest import MakeApp, Until, run_to_the_end
from tests.ui.runs.scripted_runs import (
    FailingRunner,
    ScriptedRunner,
    record_run,
    training_events,
)
from tests.ui.screen_text import screen_text
from workbench.runs.events import EpochEnded, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.ui.widgets.chart import ChartView


async def test_run_to_the_end_shows_curves_epochs_and_verdict(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        text = screen_text(app)
        assert app.main.area.name == "run"
        assert app.runs.started[0].view.status is RunStatus.FINISHED
        assert "accuracy 0.8644 after 2 epochs" in text
        assert "f fork" in text
        assert "k capture" not in text
        assert "15.2 ms   250 us" in text
        assert len(app.query_one("#chart-loss", ChartView).curves[0].curve.xs) == 20


async def test_another_run_than_the_documents_stands_alone(make_app: MakeApp) -> None:
    record_run("mnist-ipu-faster", ["data.batch_size=32"])
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.pause()
        text = screen_text(app)
        assert "not the document's run: data.batch_size" in text
        assert "printed" not in text
        assert "the document prints" not in text


async def test_live_run_says_where_it_stands(make_app: MakeApp, until: Until) -> None:
    app = make_app(ScriptedRunner(hold_after=8))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.runs.started[0].view.progress is not None)
        text = screen_text(app)
        assert "running" in text
        assert "epoch 1/3" in text
        app.runs.started[0].control.stop.set()


async def test_stop_asks_and_keeps_what_is_done(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=8))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.progress is not None)
        await pilot.press("s")
        await pilot.pause()
        assert "kept" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert not run.control.stop.is_set()
        await pilot.press("s", "y")
        await until(pilot, lambda: run.view.status is RunStatus.STOPPED)
        assert run.view.progress is not None


async def test_pause_and_go_on(make_app: MakeApp, until: Until) -> None:
    app = make_app(ScriptedRunner(hold_after=8))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.progress is not None)
        await pilot.press("p")
        await until(pilot, lambda: run.view.status is RunStatus.PAUSED)
        assert "paused" in screen_text(app)
        await pilot.press("p")
        await until(pilot, lambda: run.view.status is RunStatus.RUNNING)
        run.control.stop.set()


async def test_second_run_waits_for_the_first(make_app: MakeApp, until: Until) -> None:
    runner = ScriptedRunner(hold_after=8)
    app = make_app(runner)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5", "f5")
        await until(pilot, lambda: len(app.runs.started) == 2)
        assert app.runs.started[1].view.status is RunStatus.QUEUED
        assert "+1 queued" in screen_text(app)
        app.runs.started[0].control.stop.set()
        await until(pilot, lambda: len(runner.started) == 2)
        app.runs.started[1].control.stop.set()
        await until(pilot, lambda: app.runs.active is None)


async def test_failing_run_shows_its_error_and_leaves_the_app_alive(
    make_app: MakeApp,
) -> None:
    app = make_app(FailingRunner())
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        assert "RuntimeError: the backend broke" in screen_text(app)
        await pilot.press("2")
        await pilot.pause()
        assert app.main.area.name == "configure"


async def test_chart_keys_smooth_scale_and_read_values(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        chart = app.query_one("#chart-loss", ChartView)
        assert chart.has_focus
        await pilot.press("m", "y")
        assert chart.smoothing == 0.5
        assert chart.log_y
        await pilot.press("M", "left")
        assert chart.reading == "epoch 2.000: 0.339, epoch's mean 0.4722"
        await pilot.press("left")
        assert chart.reading.startswith("epoch 1.900: 0.3588")
        await pilot.press("escape")
        assert chart.reading == ""
        await pilot.press("question_mark")
        await pilot.pause()
        assert "The loss fell from" in screen_text(app)


async def test_one_chart_can_have_the_whole_area(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        await pilot.press("enter")
        await pilot.pause()
        assert not app.query_one("#chart-accuracy").display
        await pilot.press("tab")
        await pilot.pause()
        assert app.query_one("#chart-accuracy").display
        assert not app.query_one("#chart-loss").display


async def test_epochs_fill_the_room_that_they_have(make_app: MakeApp) -> None:
    app = make_app(ScriptedRunner(training_events(epochs=8)))
    async with app.run_test(size=(80, 24)) as pilot:
        await run_to_the_end(pilot, app)
        for size in ((80, 24), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.press("tab", "tab", "tab")
            await pilot.pause()
            shown = re.findall(r"│ ([1-8]|test)  +\d", screen_text(app))
            assert shown == [*"12345678", "test"]
            await pilot.press("tab")


async def test_frozen_view_lets_the_run_go_on(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("4", "z", "f5")
        await app.workers.wait_for_complete()
        app.runs.follow()
        await pilot.pause()
        assert app.runs.started[0].view.status is RunStatus.FINISHED
        assert "frozen" in screen_text(app)


async def test_recorded_run_is_opened_from_the_list(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-dense", epochs=3)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert app.main.area.name == "run"
        assert "after 3 epochs" in screen_text(app)


async def test_stopped_run_is_resumed_from_the_list(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-dense", status=RunStatus.STOPPED)
    runner = ScriptedRunner()
    app = make_app(runner)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("tab", "r")
        await app.workers.wait_for_complete()
        app.runs.follow()
        await pilot.pause()
        assert runner.started == ["mnist-dense"]
        assert app.runs.started[0].resume is not None


async def test_run_followed_from_a_record_grows(
    make_app: MakeApp, until: Until
) -> None:
    record = RunRecord.create({"train": {"epochs": 2}}, "mnist-dense")
    record.append(EpochEnded(1, 0.5, 0.8, 1.0, 100.0, 1.0))
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert "running" in screen_text(app)
        record.append(EpochEnded(2, 0.4, 0.9, 1.0, 100.0, 1.0))
        record.finish(RunStatus.FINISHED, "", {"accuracy": 0.9})
        app.runs.look()
        await app.workers.wait_for_complete()
        app.runs.follow()
        await pilot.pause()
        assert "after 2 epochs" in screen_text(app)


async def test_quit_with_a_live_run_asks_stops_and_leaves(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=8))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.progress is not None)
        await pilot.press("q")
        await pilot.pause()
        assert "is running" in screen_text(app)
        await pilot.press("n")
        await pilot.pause()
        assert run.view.live
        await pilot.press("q", "y")
        await until(pilot, lambda: not app.is_running)
    assert run.view.status is RunStatus.STOPPED
