"""The memory of compared runs, laid over each other."""

from __future__ import annotations

import pytest

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import record_run
from tests.ui.screen_text import screen_text
from workbench.comparing.memory_curves import memory_curve
from workbench.runs.series import METRICS
from workbench.ui.widgets.chart import ChartView


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_memory_of_two_plans_lies_over_each_other(
    make_app: MakeApp, until: Until, size: tuple[int, int]
) -> None:
    ids = [record_run("mnist-ipu"), record_run("mnist-ipu", ["data.batch_size=256"])]
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.runs.records) == 2)
        for run in ids:
            app.handlers.toggle_mark(run)
        await pilot.press("5")
        await pilot.pause()
        await pilot.press(*["tab"] * len(METRICS))
        chart = app.query_one(ChartView)
        await until(pilot, lambda: len(chart.curves) == 2)
        await pilot.pause()
        text = screen_text(app)
        runs = [app.runs.record(run) for run in ids]
        expected = [memory_curve(run).curve for run in runs if run is not None]
        assert [item.curve for item in chart.curves] == expected
        assert max(expected[1].ys) > max(expected[0].ys)
        assert "Memory over the program (modelled), MiB" in text
        assert "● peak 100 MiB" in text
        await pilot.press("tab")
        await pilot.pause()
        assert "loss" in str(chart.border_title)


async def test_every_metric_can_be_overlaid(make_app: MakeApp, until: Until) -> None:
    run = record_run("mnist-ipu")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        app.handlers.toggle_mark(run)
        await pilot.press("5")
        titles = []
        for _ in range(len(METRICS) + 1):
            await pilot.pause()
            titles.append(str(app.query_one(ChartView).border_title).split("●")[0])
            await pilot.press("tab")
        assert len(set(titles)) == len(METRICS) + 1
