"""The stage editor as text: a draft that cannot run, a folded model, a cell read."""

from __future__ import annotations

import pytest

from tests.ui.conftest import MakeApp
from tests.ui.screen_text import check_snapshot, screen_text
from tests.ui.test_snapshots import SIZES, settle


@pytest.mark.parametrize("size", SIZES)
async def test_draft_that_cannot_run(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    app.session.draft.set_text("execution.gradient_accumulation", "6")
    async with app.run_test(size=size) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        check_snapshot(f"stages-wrong-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_large_model_in_eight_stages(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    app = make_app(preset="bert-large-pod16")
    async with app.run_test(size=size) as pilot:
        await pilot.press("3", "S", "8", "enter")
        await settle(pilot, app)
        await pilot.press(*["down"] * 4, "space", "down")
        await pilot.pause()
        check_snapshot(f"stages-large-{size[0]}x{size[1]}", screen_text(app))


async def test_cell_of_the_timeline(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-dense-8-stages")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3", "tab", "t", "down", *["right"] * 5)
        await settle(pilot, app)
        check_snapshot("stages-timeline-120x40", screen_text(app))


async def test_schedules_in_a_small_window(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        await pilot.press("k")
        await pilot.pause()
        check_snapshot("schedules-80x24", screen_text(app))
