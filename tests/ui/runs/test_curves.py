"""Curves: what each report adds, where numbers end, one cursor, steady size."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.conftest import MakeApp, Until, run_to_the_end
from tests.ui.runs.scripted_runs import STEPS, ScriptedRunner, training_events
from tests.ui.screen_text import check_snapshot, screen_text
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.runs import run_record
from workbench.runs.events import Compiling, Event, Progressed, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.series import Curve
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets import chart as chart_module
from workbench.ui.widgets.chart import ChartView
from workbench.ui.widgets.field_form import FieldForm


def chart_of(app: WorkbenchApp, name: str) -> ChartView:
    """Return a chart of the Run area."""
    return app.query_one(f"#chart-{name}", ChartView)


async def test_no_step_where_an_epoch_begins_and_the_mean_behind(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        (curve,) = chart_of(app, "loss").curves
        drops = [
            a - b for a, b in zip(curve.curve.ys, curve.curve.ys[1:], strict=False)
        ]
        assert max(drops) == pytest.approx(drops[0])
        assert min(drops) > 0
        means = curve.behind.ys
        assert means[9] - means[10] > 5 * drops[9]
        assert "epoch" in screen_text(app).splitlines()[20]


async def test_smoothing_keeps_the_raw_line(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        chart = chart_of(app, "loss")
        raw = chart.curves[0].curve
        await pilot.press("m", "m")
        behind, shown = chart._lines()
        assert behind.faint
        assert behind.curve == raw
        assert shown.curve.ys != raw.ys


async def test_a_curve_is_drawn_before_the_screen_is_put_together(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []
    monkeypatch.setattr(
        chart_module, "draw", lambda chart, *size: drawn.append(chart) or ""
    )
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        chart = chart_of(app, "loss")
        (named,) = chart.curves
        drawn.clear()
        shorter = Curve(named.curve.xs[:5], named.curve.ys[:5])
        chart.show_curves([replace(named, curve=shorter)])
        assert len(drawn) == 1
        await pilot.pause()
        assert len(drawn) == 1


async def test_one_cursor_goes_through_all_charts(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        await pilot.press("left", "left")
        await pilot.pause()
        readings = {name: chart_of(app, name).reading for name in ("accuracy", "time")}
        assert readings["accuracy"].startswith("epoch 1.900: 0.8565")
        assert readings["time"] == "1.900: measured 15.2 ms, modelled 250 us"
        assert readings["time"] in screen_text(app)
        await pilot.press("tab", "escape")
        await pilot.pause()
        assert chart_of(app, "loss").reading == ""


async def test_charts_keep_their_height_when_messages_arrive(
    make_app: MakeApp, until: Until
) -> None:
    events: list[Event] = [Compiling("loading TensorFlow")]
    events += training_events()[2:6]
    events += [Compiling(f"message {number}") for number in range(6)]
    runner = ScriptedRunner(events=events, hold_after=5)
    app = make_app(runner)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.events_seen == 6)
        await pilot.pause()
        before = chart_of(app, "loss").size
        for event in events[5:]:
            runner.append(event)
        app.runs.follow()
        await pilot.pause()
        assert "message 5" in screen_text(app)
        assert chart_of(app, "loss").size == before
        run.control.stop.set()
        await until(pilot, lambda: not run.view.live)
        await pilot.pause()
        assert chart_of(app, "loss").size == before


def broken_record(at_once: bool = False) -> str:
    """Leave a run whose loss is no number from its second epoch or first report on."""
    changes = ["train.learning_rate=0.5", "data.batch_size=16"]
    tables, _ = apply_overrides(load_preset("mnist-dense").tables, changes)
    spec, problems = validate(tables)
    assert spec is not None, problems
    record = RunRecord.create(spec_to_tables(spec), "mnist-dense")
    before = [*training_events(1)[:-1], Progressed(2, 4, STEPS, 0.6, 0.7, 15.0, 250.0)]
    for event in () if at_once else before:
        record.append(event)
    record.append(Progressed(2, 8, STEPS, math.nan, 0.7, 15.0, 250.0))
    message = "the loss is nan at step 8 of 40 in epoch 2; try a smaller"
    record.finish(RunStatus.FAILED, f"{message} train.learning_rate")
    return record.run_id


async def open_first_run(pilot: Pilot[Any], app: WorkbenchApp, until: Until) -> None:
    """Look at the newest run of the list."""
    await until(pilot, lambda: app.runs.records)
    await pilot.press("tab", "enter")
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_loss_that_is_no_number_is_marked_where_it_begins(
    make_app: MakeApp,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
) -> None:
    clock = SimpleNamespace(time=lambda: 1_700_000_000.0)
    monkeypatch.setattr(run_record, "time", clock)
    broken_record()
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await open_first_run(pilot, app, until)
        text = screen_text(app)
        assert "no number from 1.2 on" in text
        assert "✗" in text.split("no number")[0].split("Run")[-1]
        assert "at step 8 of 40 in epoch 2" in text
        assert "f opens this experiment with train.learning_rate 0.05" in text
        check_snapshot(f"run-broken-{size[0]}x{size[1]}", text)


@pytest.mark.parametrize("at_once", [False, True])
async def test_next_of_a_failed_run_opens_its_experiment_with_the_remedy(
    make_app: MakeApp, until: Until, at_once: bool
) -> None:
    broken_record(at_once)
    app = make_app(preset="mnist-ipu")
    async with app.run_test(size=(120, 40)) as pilot:
        await open_first_run(pilot, app, until)
        assert ("loss: no report is a number" in screen_text(app)) is at_once
        await pilot.press("f")
        await pilot.pause()
        assert app.main.area.name == "configure"
        assert app.session.current_preset == "mnist-dense"
        changes = ["data.batch_size=16", "train.learning_rate=0.05"]
        assert sorted(app.session.draft.overrides()) == changes
        assert "train.learning_rate is 0.05" in screen_text(app)
        assert app.query_one(FieldForm).path == "train.learning_rate"
        await pilot.press("u", "u")
        assert app.session.draft.overrides() == []
