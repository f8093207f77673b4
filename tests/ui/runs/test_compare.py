"""Runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.five_runs import record_five
from tests.ui.runs.scripted_runs import record_run
from tests.ui.runs.test_script_runs import record_script
from tests.ui.screen_text import screen_text
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.chart import ChartView
from workbench.ui.widgets.row_list import RowList


async def compare_both(pilot: Pilot[None], app: WorkbenchApp, until: Until) -> None:
    """Mark both runs and compare them."""
    await until(pilot, lambda: len(app.runs.records) == 2)
    await pilot.press("tab", "space", "down", "space", "5")
    await pilot.pause()


async def test_nothing_marked_says_what_to_press(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await pilot.pause()
        assert "Nothing to compare yet" in screen_text(app)
        footer = screen_text(app).splitlines()[-1]
        assert "a add run" in footer
        assert "explain" not in footer


@pytest.mark.usefixtures("two_runs")
async def test_only_the_differing_field_is_shown_beside_the_metrics(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_both(pilot, app, until)
        text = screen_text(app)
        assert "data.batch_size" in text
        assert "train.optimizer" not in text
        assert "best" in text
        chart = app.query_one("#compare-chart", ChartView)
        assert [curve.sign for curve in chart.curves] == ["●", "▲"]
        assert {curve.marker for curve in chart.curves} == {"braille"}
        await pilot.press("d")
        await pilot.pause()
        assert "experiment.seed" in app.query_one("#compare-table", RowList).keys


@pytest.mark.usefixtures("two_runs")
async def test_tab_overlays_another_metric_and_b_shows_last_values(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_both(pilot, app, until)
        assert "loss, best" in screen_text(app)
        await pilot.press("tab", "b")
        await pilot.pause()
        text = screen_text(app)
        assert "─ accuracy" in text
        assert "loss, last" in text


@pytest.mark.usefixtures("two_runs")
async def test_comparison_is_exported(
    make_app: MakeApp, until: Until, tmp_path: Path
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_both(pilot, app, until)
        await pilot.press("e")
        await pilot.pause()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
    written = (tmp_path / "comparison.csv").read_text(encoding="utf-8")
    assert len(written.splitlines()) >= 3


@pytest.fixture
def five_runs() -> list[str]:
    """Leave five runs, and return their ids."""
    return record_five()


async def compare_five(pilot: Pilot[None], app: WorkbenchApp, until: Until) -> None:
    """Mark all five runs, oldest first, and compare them."""
    await until(pilot, lambda: len(app.runs.records) == 5)
    app.handlers.marked.keys[:] = sorted(run.run_id for run in app.runs.records)
    await pilot.press("5")
    await pilot.pause()


def keys_of(app: WorkbenchApp) -> list[str]:
    return app.query_one("#compare-table", RowList).keys


@pytest.mark.usefixtures("two_runs")
async def test_a_leads_to_the_runs_after_the_marks_were_cleared(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_both(pilot, app, until)
        await pilot.press("backspace")
        await pilot.pause()
        assert "Nothing to compare yet" in screen_text(app)
        await pilot.press("a")
        await pilot.pause()
        assert app.query_one("#runs").has_focus


@pytest.mark.usefixtures("five_runs")
async def test_metrics_come_before_fields_and_the_model_is_one_line(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_five(pilot, app, until)
        keys = keys_of(app)
        assert keys.index("loss_best") < keys.index("samples_per_second")
        assert keys.index("samples_per_second") < keys.index("train.learning_rate")
        assert keys[-1] == "model"
        assert not any(key.startswith("model.layers") for key in keys)
        await pilot.press("end", "enter")
        await pilot.pause()
        assert keys_of(app)[-7:] == [f"model {layer}" for layer in range(7)]
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "conv2d Conv2D filters=32" in screen_text(app)


@pytest.mark.usefixtures("five_runs")
async def test_every_run_has_a_name_of_its_own_in_table_and_legend(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_five(pilot, app, until)
        text = screen_text(app)
        for name in (
            "● 2 stages 3+4, Grouped, learning_rate 0.02",
            "▲ 2 stages 3+4, Grouped, learning_rate 0.05",
            "■ 2 stages 3+4, Interleaved, learning_rate 0.05",
            "◆ 4 stages 2+2+2+1, Grouped, learning_rate 0.05",
            "+ mnist-dense, no pipeline, learning_rate 0.01",
        ):
            assert name in text
        assert "335,447 +42 % *" in text


@pytest.mark.usefixtures("five_runs")
async def test_the_chosen_run_is_pinned_as_the_baseline(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_five(pilot, app, until)
        await pilot.press("right", "right", "P")
        await pilot.pause()
        text = screen_text(app)
        assert "Baseline ■ 2 stages 3+4, Interleaved, learning_rate 0.05" in text
        row = next(line for line in text.splitlines() if "samples/s" in line)
        # 236,390 and 335,447 beside 182,424, by hand.
        assert row.split()[2:9] == [
            "modelled", "182,424", "236,390", "+30", "%", "236,390", "+30",
        ]  # fmt: skip
        # It stays the baseline when another run leaves the comparison.
        app.handlers.toggle_mark(app.handlers.marked.keys[0])
        app.main.area.refresh_area()
        await pilot.pause()
        assert "Baseline ▲ 2 stages 3+4, Interleaved (pinned)" in screen_text(app)


@pytest.mark.usefixtures("five_runs")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_cut_cell_is_read_in_full(
    make_app: MakeApp, until: Until, size: tuple[int, int]
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await compare_five(pilot, app, until)
        app.query_one("#compare-table", RowList).cursor_key = "train.loss"
        await pilot.press("enter")
        await pilot.pause()
        assert "sparse_categorical_crossentropy" in screen_text(app)


@pytest.mark.usefixtures("five_runs")
async def test_columns_that_have_no_room_are_reached_with_the_arrows(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await compare_five(pilot, app, until)
        assert "←→ 3 more runs" in screen_text(app)
        await pilot.press(*["right"] * 4)
        await pilot.pause()
        assert "+ no pipeline," in screen_text(app).split("what came of it")[0]


@pytest.mark.usefixtures("five_runs")
async def test_x_explains_the_difference_to_the_chosen_run(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await compare_five(pilot, app, until)
        await pilot.press("right", "right", "right", "x")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.pause()
        text = screen_text(app)
    assert "From ● to ◆" in text
    assert "+61.1 us (+47 %)     191 us" in text
    assert "train.learning_rate 0.02 to 0.05" in text


async def test_scripts_are_compared_and_explained(
    make_app: MakeApp, until: Until
) -> None:
    keys = [record_script("one.py", 8.0), record_run("mnist-ipu")]
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.runs.records) == 2)
        app.handlers.marked.keys[:] = keys
        await pilot.press("5")
        await pilot.pause()
        text = screen_text(app)
        assert "one.py" in text
        await pilot.press("d")
        await pilot.press("x")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        assert "From ● to ▲" in screen_text(app)
