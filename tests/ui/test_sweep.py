"""Sweeps from the current experiment."""

from __future__ import annotations

from tests.ui.conftest import MakeApp, Until
from tests.ui.screen_text import screen_text
from workbench.ui.widgets.row_list import RowList


async def test_sweep_fills_a_table_best_first(make_app: MakeApp, until: Until) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("home", "shift+end", *"data.batch_size=16,32,64", "enter")
        await until(pilot, lambda: app.screen.query("#sweep-table"))
        await app.workers.wait_for_complete()
        app.screen.show_results()  # type: ignore[attr-defined]
        await pilot.pause()
        table = app.screen.query_one("#sweep-table", RowList)
        assert len(table.keys) == 3
        assert "3 of 3 points" in screen_text(app)
        times = [row.content.plain.split()[1] for row in table.rows]
        assert [float(item) for item in times] == sorted(float(item) for item in times)
        await pilot.press("escape")
        await pilot.pause()
        assert not app.query("#sweep-table")


async def test_wrong_grid_says_why_and_stays_open(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("home", "shift+end", *"data.batch_sise=1,2", "enter")
        await pilot.pause()
        assert "unknown field; did you mean" in screen_text(app)
