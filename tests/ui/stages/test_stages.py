"""Cutting the model into stages."""

from __future__ import annotations

from textual.pilot import Pilot

from ipu_runtime.plan.schedule.building import build_schedule
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from ipu_runtime.plan.schedule.timeline import StageTimes, build_timeline
from tests.ui.conftest import MakeApp
from tests.ui.screen_text import screen_text
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.layer_table import LayerTable
from workbench.ui.widgets.timeline_view import TimelineView


async def open_stages(pilot: Pilot[None], app: WorkbenchApp, layer: str) -> None:
    """Show the stages with the cursor on a layer."""
    await pilot.press("3")
    await pilot.pause()
    app.query_one(LayerTable).cursor_key = layer
    await pilot.pause()


def stages(app: WorkbenchApp) -> list[int]:
    value: list[int] = app.session.draft.value("pipeline.stages")
    return value


async def test_layer_at_the_cut_moves_alone(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d_1")
        before = app.session.draft.plan
        await pilot.press("right")
        await pilot.pause()
        assert stages(app) == [0, 0, 1, 1, 1, 1, 1]
        after = app.session.draft.plan
        assert before is not None
        assert after is not None
        assert after.stages[0].forward_us < before.stages[0].forward_us
        await pilot.press("u")
        assert stages(app) == [0, 0, 0, 1, 1, 1, 1]


async def test_cut_moves_up_and_down(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        await pilot.press("left_square_bracket")
        assert stages(app) == [0, 0, 1, 1, 1, 1, 1]
        await pilot.press("right_square_bracket", "right_square_bracket")
        assert stages(app) == [0, 0, 0, 0, 1, 1, 1]


async def test_illegal_move_says_why_and_changes_nothing(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        await pilot.press("right")
        await pilot.pause()
        assert app.session.draft.changes() == {}
        assert "stage 0 would be empty" in screen_text(app)
        await pilot.press("left")
        await pilot.pause()
        assert "no stage before the first" in screen_text(app)


async def test_another_stage_needs_more_ipus_and_balances(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        await pilot.press("n")
        await pilot.pause()
        assert max(stages(app)) == 2
        assert app.session.draft.value("ipu.auto_select_ipus") == 4
        await pilot.press("N", "N")
        await pilot.pause()
        assert stages(app) == []


async def test_balancing_shortens_the_step(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        before = app.session.draft.plan
        await pilot.press("b")
        await app.workers.wait_for_complete()
        await pilot.pause()
        after = app.session.draft.plan
        assert before is not None
        assert after is not None
        assert stages(app) != [0, 0, 0, 1, 1, 1, 1]
        assert after.ipu_us_per_batch < before.ipu_us_per_batch


async def test_locked_layer_stays_when_balancing(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d_1")
        await pilot.press("l", "b")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.session.draft.value("pipeline.locked") == ["conv2d_1"]
        assert stages(app)[2] == 0


async def test_timeline_shows_every_task_and_scrolls(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_stages(pilot, app, "conv2d")
        view = app.query_one(TimelineView)
        assert view.text.count("F") == view.text.count("B") == 16
        assert view.text.count("│U") == 2
        view.focus()
        await pilot.press("plus", "plus", *["right"] * 12)
        await pilot.pause()
        assert view.scroll_x > 0
        await pilot.press("t")
        assert view.by_time


async def test_schedules_are_compared_and_one_is_chosen(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        await pilot.press("k")
        await pilot.pause()
        text = screen_text(app)
        assert "1F1B" in text
        assert "not on the IPU" in text
        await pilot.press("end", "enter")
        await pilot.pause()
        assert "not on the IPU" in screen_text(app)
        await pilot.press("home", "down", "enter")
        await pilot.pause()
        assert app.session.draft.value("pipeline.schedule") == "Interleaved"


async def test_recomputation_goes_through_its_ways(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        await pilot.press("r")
        await pilot.pause()
        assert app.session.draft.value("ipu.allow_recompute") is True
        assert "R0" in app.query_one(TimelineView).text


async def test_replicated_pipeline_names_the_ipus_of_each_replica(
    make_app: MakeApp,
) -> None:
    app = make_app()
    app.session.draft.set({"ipu.auto_select_ipus": 4})
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        assert "2 replicas, IPUs of each  0: 0-1  1: 2-3" in screen_text(app)


async def test_long_run_shows_its_ends_and_what_repeats_between(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d")
        view = app.query_one(TimelineView)
        schedule = build_schedule(ScheduleKind.GROUPED, 2, 100_000)
        times = StageTimes((3.0, 2.0), (4.0, 5.0))
        view.show_timeline(build_timeline(schedule, times))
        _, first, _ = view.text.splitlines()
        assert len(first) < 10_000
        assert "……" in first
        # The widest cells have room for every number.
        for _ in range(3):
            view.action_timeline_zoom_in()
        ruler, first, _ = view.text.splitlines()
        assert first.index("B99998") == ruler.index("200000")
        view.action_timeline_scale()
        assert "····" not in view.text
