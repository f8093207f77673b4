"""Sweeps from the current experiment."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.ui.conftest import MakeApp, Until
from tests.ui.screen_text import check_snapshot, screen_text
from workbench.sweeps.sweep_grid import Axis
from workbench.sweeps.sweep_point import PointResult
from workbench.sweeps.sweep_record import SweepDefinition, list_sweeps
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.row_list import RowList
from workbench.views.content import listed
from workbench.views.sweep import points_table, sweep_columns

GRID = "data.batch_size=16,32,64 execution.gradient_accumulation=1,2,3"


async def sweep(
    pilot: Pilot[None], app: WorkbenchApp, until: Until, grid: str = ""
) -> None:
    """Go through a grid, or the proposed one, to its end."""
    await pilot.press("w")
    await pilot.pause()
    if grid:
        app.screen.query_one(Input).value = grid
    await pilot.press("enter")
    await until(pilot, lambda: "done:" in screen_text(app))
    await pilot.pause()


def table(app: WorkbenchApp) -> list[list[str]]:
    """Return the cells of the table."""
    rows = app.screen.query_one("#sweep-table", RowList).rows
    return [row.content.plain.replace(" k", "k").split() for row in rows]


async def test_points_are_ranked_by_samples_per_second(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await sweep(pilot, app, until)
        rows = table(app)
        assert [row[1] if row[0] == "*" else row[0] for row in rows] == [
            "64",
            "32",
            "16",
        ]
        assert rows[0][0] == "*"
        rates = [float(row[2 if row[0] == "*" else 1].strip("k")) for row in rows]
        assert rates == sorted(rates, reverse=True)
        text = screen_text(app)
        assert "3 of 3 points" in text
        bars = [row.count("█") for row in text.splitlines() if row.count("█") > 9]
        assert bars[0] / bars[-1] == pytest.approx(rates[-1] / rates[0], abs=0.03)
        await pilot.press("escape")
        await pilot.pause()
        assert not app.query("#sweep-table")


async def test_columns_sort_and_the_order_turns_round(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await sweep(pilot, app, until)
        # Per batch the smallest batch is best; it is not marked as such for it.
        await pilot.press("right")
        await pilot.pause()
        assert [row[0] for row in table(app)] == ["16", "32", "*"]
        assert "per batch▼" in screen_text(app)
        await pilot.press("v")
        await pilot.pause()
        assert [row[0] for row in table(app)] == ["*", "32", "16"]
        await pilot.press("left", "left")
        await pilot.pause()
        assert "batch_size▼" in screen_text(app)
        assert [row[0] for row in table(app)] == ["16", "32", "*"]


async def test_enter_loads_the_point_and_one_undo_takes_it_back(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(preset="mnist-ipu-pipelined")
    async with app.run_test(size=(120, 40)) as pilot:
        await sweep(pilot, app, until, "stages=2,4")
        index = next(n for n, row in enumerate(table(app)) if "4" in row[:2])
        await pilot.press(*["down"] * index, "enter")
        await until(pilot, lambda: app.main.area.name == "configure")
        draft = app.session.draft
        assert max(draft.stages) == 3
        assert not draft.why_not_run
        await pilot.press("u")
        assert not draft.changes()


async def test_a_point_that_cannot_run_says_why_and_comes_last(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(preset="mnist-ipu-pipelined")
    async with app.run_test(size=(120, 40)) as pilot:
        await sweep(pilot, app, until, "execution.gradient_accumulation=0,8")
        assert "1 cannot run" in screen_text(app)
        assert table(app)[-1][0] == "0"
        await pilot.press("end", "enter")
        await until(pilot, lambda: "it cannot be loaded" in screen_text(app))


async def test_a_former_sweep_is_opened_again(make_app: MakeApp, until: Until) -> None:
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=(120, 40)) as pilot:
        await sweep(pilot, app, until)
        before = table(app)
        await pilot.press("escape", "W")
        await until(pilot, lambda: "points planned, batch_size" in screen_text(app))
        assert list_sweeps()[0] in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: "kept:" in screen_text(app))
        assert table(app) == before


@pytest.mark.parametrize("sorted_by", range(8))
def test_titles_stay_apart_in_a_small_window(sorted_by: int) -> None:
    values = ("Grouped", "Interleaved")
    paths = ("data.batch_size", "pipeline.schedule", "execution.gradient_accumulation")
    axes = tuple(Axis(path, values) for path in paths)
    columns = sweep_columns(SweepDefinition("any", {}, axes, False))
    point = PointResult(0, dict.fromkeys(paths, "Interleaved"))
    marked = [item.title for item in columns]
    marked[sorted_by] += "▼"
    head, rows = listed(points_table([point], columns, None, marked), 76)
    titles = head.plain
    # "per batch" is two words.
    assert len(titles.split()) == len(columns) + 1
    assert len(titles) <= 76
    assert len(rows[0][1].plain) <= 76


async def test_wrong_grid_says_why_and_stays_open(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("home", "shift+end", *"data.batch_sise=1,2", "enter")
        await pilot.pause()
        assert "unknown field; did you mean" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_whole_table_and_the_map_are_seen(
    make_app: MakeApp, until: Until, size: tuple[int, int]
) -> None:
    app = make_app(preset="mnist-dense")
    async with app.run_test(size=size) as pilot:
        await sweep(pilot, app, until, GRID)
        lines = screen_text(app).splitlines(keepends=True)
        # The name of the sweep holds the time.
        shown = [line for line in lines if "done:" not in line]
        check_snapshot(f"sweep-{size[0]}x{size[1]}", "".join(shown))
