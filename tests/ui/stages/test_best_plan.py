"""The best plan for a goal, searched and taken in the app."""

from __future__ import annotations

from textual.pilot import Pilot

from ipu_runtime.plan.rules.weight_updates import samples_per_update
from tests.ui.conftest import MakeApp
from tests.ui.screen_text import screen_text
from workbench.ui.app import WorkbenchApp
from workbench.ui.screens.best_plan import BestPlanScreen
from workbench.ui.widgets.row_list import RowList


async def _searched(pilot: Pilot[int], app: WorkbenchApp) -> BestPlanScreen:
    await pilot.press("B")
    await pilot.pause()
    screen = app.screen
    assert isinstance(screen, BestPlanScreen)
    await _end_of_search(pilot, screen)
    return screen


async def _end_of_search(pilot: Pilot[int], screen: BestPlanScreen) -> None:
    for worker in list(screen.workers):
        if worker.group == "best":
            await worker.wait()
    await pilot.pause()


async def test_enter_sets_everything_and_one_undo_takes_it_back(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        draft = app.session.draft
        before = draft.plan
        assert before is not None
        await _searched(pilot, app)
        await pilot.press("enter")
        await pilot.pause()
        after = draft.plan
        assert after is not None
        assert draft.valid
        assert after.samples_per_second > 2 * before.samples_per_second
        assert samples_per_update(after.request) == samples_per_update(before.request)
        assert len(draft.changes()) > 2
        await pilot.press("u")
        assert draft.changes() == {}


async def test_updates_stay_unless_asked_and_the_goal_can_change(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        screen = await _searched(pilot, app)
        assert screen.query_one(RowList).keys
        outcome = screen.outcome
        assert outcome is not None
        batches = {found.choice.update_samples for found in outcome.best}
        own = samples_per_update(app.session.draft.plan.request)  # type: ignore[union-attr]
        assert batches == {own}
        assert f"throughput, {own} samples per update" in screen_text(app)
        await pilot.press("g")
        await _end_of_search(pilot, screen)
        assert screen.outcome is not None
        assert screen.outcome.best[0].choice.update_samples > own
        text = screen_text(app)
        assert "any update" in text
        assert f"samples per update instead of {own}: " in text
        await pilot.press("o")
        await _end_of_search(pilot, screen)
        assert screen.outcome is not None
        assert screen.outcome.aim.goal.value == "latency"
        await pilot.press("escape")
        await pilot.pause()
        assert app.session.draft.changes() == {}
