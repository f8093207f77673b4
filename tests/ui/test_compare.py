"""Runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.ui.conftest import MakeApp, Until
from tests.ui.screen_text import screen_text
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.chart import ChartView


async def compare_both(pilot: Pilot[None], app: WorkbenchApp, until: Until) -> None:
    """Mark both runs and compare them."""
    await until(pilot, lambda: len(app.records) == 2)
    await pilot.press("tab", "space", "down", "space", "5")
    await pilot.pause()


async def test_nothing_marked_says_what_to_press(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("5")
        await pilot.pause()
        assert "Nothing to compare yet" in screen_text(app)


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
        assert [curve.marker for curve in chart.curves] == ["●", "▲"]
        await pilot.press("d")
        await pilot.pause()
        assert "experiment.seed" in screen_text(app)


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
