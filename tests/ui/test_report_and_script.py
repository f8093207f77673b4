"""Report and script of the experiment."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.reports.document import Chart
from ipu_runtime.reports.memory_sections import walk_parts
from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import record_run
from tests.ui.screen_text import screen_text
from workbench.script_export import export_script
from workbench.views.drawings import LABELS, area_rows


async def test_report_puts_the_plan_beside_what_was_measured(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-ipu-pipelined")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("6")
        await pilot.pause()
        text = screen_text(app)
    assert "measured on this machine  15.2 ms" in text
    assert "fullest tile" in text
    assert "layers with the most time" in text


async def test_only_runs_with_the_same_settings_stand_beside_the_plan(
    make_app: MakeApp, until: Until
) -> None:
    # The newest one has other fields, so its time is no time of this plan.
    record_run("mnist-ipu-pipelined", ["train.epochs=1"], rate=30.0)
    record_run("mnist-ipu-pipelined", ["data.batch_size=32"], rate=99.0)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        app.runs.next_order()
        await pilot.press("6")
        await pilot.pause()
        same = screen_text(app)
        app.session.draft.set_text("data.batch_size", "128")
        await pilot.press("5", "6")
        await pilot.pause()
        other = screen_text(app)
    assert "measured on this machine  15.2 ms" in same
    assert "times as long as the modelled IPU" in same
    assert "measured: no run with these settings" in other
    assert "times as long" not in other


async def test_a_cpu_has_the_measured_time_of_its_run(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-cpu", ["train.epochs=1"])
    app = make_app(preset="mnist-cpu")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        for key in ("1", "2", "6"):
            await pilot.press(key)
            await pilot.pause()
            assert re.search(r"measured +15\.2 ms  per batch", screen_text(app)), key


async def test_what_a_step_is_is_not_cut_off(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-ipu-replicated")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        text = screen_text(app)
    assert "in a step each of 2 replicas takes one" in text
    assert re.search(r"│ batch +│", text)


async def test_memory_of_the_next_ipu(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        text = screen_text(app)
        assert "IPU 0 over its program" in text
        assert "tiles of IPU 0" in text
        await pilot.press("right")
        await pilot.pause()
        text = screen_text(app)
        assert "IPU 1 over its program" in text
        assert "tiles of IPU 1" in text
        await pilot.resize_terminal(80, 24)
        await pilot.press("right")
        await pilot.pause()
        assert "IPU 0 over its program" in screen_text(app)


async def test_memory_over_the_program_is_drawn_in_a_small_window(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        text = screen_text(app)
        width = app.query_one("#report-memory-text").content_size.width
    plan = app.session.draft.plan
    assert plan is not None
    chart = walk_parts(walk_memory(plan)[0])[0]
    assert isinstance(chart, Chart)
    for cells in area_rows(chart, width - LABELS, 6):
        assert "".join(span.text for span in cells).rstrip() in text
    assert "|forward" in text


async def test_script_is_shown_copied_and_saved(
    make_app: MakeApp, tmp_path: Path
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await pilot.pause()
        assert "from tensorflow.python import ipu" in screen_text(app)
        await pilot.press("c")
        await pilot.pause()
        assert app.session.draft.spec is not None
        assert app.clipboard == export_script(app.session.draft.spec)
        await pilot.press("e")
        await pilot.pause()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
    saved = (tmp_path / "mnist_ipu_pipelined.py").read_text(encoding="utf-8")
    ast.parse(saved)


async def test_wrong_experiment_has_no_script_but_a_reason(make_app: MakeApp) -> None:
    app = make_app()
    app.session.draft.set_text("data.batch_size", "0")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await pilot.pause()
        assert "No script: data.batch_size: 0 is out of range" in screen_text(app)
