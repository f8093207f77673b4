"""Report and script of the experiment."""

from __future__ import annotations

import ast
from pathlib import Path

from ipu_runtime.plan.planner import walk_memory
from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import record_run
from tests.ui.screen_text import screen_text
from workbench.script_export import export_script
from workbench.views.memory_chart import LABELS, labelled_rows


async def test_report_puts_the_plan_beside_what_was_measured(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-ipu-pipelined")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.known.records)
        await pilot.press("6")
        await pilot.pause()
        text = screen_text(app)
    assert "measured on this machine  15.2 ms" in text
    assert "fullest tile" in text
    assert "layers with the most time" in text


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
    plan = app.experiment.draft.plan
    assert plan is not None
    area = labelled_rows(walk_memory(plan)[0], width - LABELS, 6)
    for label, cells in area:
        row = f"{label}{''.join(text for text, _ in cells)}".rstrip()
        assert row in text
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
        assert app.experiment.draft.spec is not None
        assert app.clipboard == export_script(app.experiment.draft.spec)
        await pilot.press("e")
        await pilot.pause()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
    saved = (tmp_path / "mnist_ipu_pipelined.py").read_text(encoding="utf-8")
    ast.parse(saved)


async def test_wrong_experiment_has_no_script_but_a_reason(make_app: MakeApp) -> None:
    app = make_app()
    app.experiment.draft.set_text("data.batch_size", "0")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await pilot.pause()
        assert "No script: data.batch_size: 0 is out of range" in screen_text(app)
