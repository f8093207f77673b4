"""Runs of scripts in the app: no experiment stands behind them."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.plan.request_json import request_to_json
from tests.ui.conftest import MakeApp, Until
from tests.ui.screen_text import screen_text
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import (
    CallBegan,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_record import RunRecord
from workbench.ui.widgets.row_list import RowList


def record_script(name: str, loss: float) -> str:
    """Record a script that runs a program of its own four times."""
    tables = {"script": {"file": f"/somewhere/{name}", "arguments": [str(loss)]}}
    record = RunRecord.create(tables, name)
    spec, _ = validate(load_preset("mnist-ipu").tables)
    assert spec is not None
    plan = plan_experiment(spec)
    content = {**plan_to_json(plan), "request": request_to_json(plan.request)}
    record.write_plan(content)
    record.write_plan(content, "plans/1.json")
    events: list[Event] = [
        RunStarted(record.run_id, name, tables),
        CallBegan("run 1", "run", "train", 1, 0, "plans/1.json"),
        *(
            Progressed(
                1, at, 0, loss / at, None, 12.0, 30.0, "run 1", {"loss": loss / at}
            )
            for at in range(1, 5)
        ),
        RunEnded(RunStatus.FINISHED),
    ]
    record.append_all([(event, 1.0) for event in events])
    record.finish(RunStatus.FINISHED)
    return record.run_id


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_script_is_shown_reported_and_compared(
    make_app: MakeApp, until: Until, size: tuple[int, int]
) -> None:
    first, second = record_script("one.py", 8.0), record_script("two.py", 4.0)
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(app.runs.records) == 2)
        await app.handlers.open(first)
        await pilot.pause()
        text = screen_text(app)
        assert "finished after 1 call; loss 2 after 4 executions" in text
        assert ("nothing of it was reported" in text) is (size == (120, 40))
        footer = text.splitlines()[-1]
        assert "k capture" in footer
        assert "f fork" not in footer
        await pilot.press("6")
        await pilot.pause()
        assert "Time of a step of one.py" in screen_text(app)
        for key in (first, second):
            app.handlers.toggle_mark(key)
        await pilot.press("5")
        await pilot.pause()
        table = app.query_one("#compare-table", RowList)
        assert "script.arguments" in table.keys
        assert "two.py" in screen_text(app)


async def test_a_script_has_measured_times_and_leaves_the_report_to_a_preset(
    make_app: MakeApp, until: Until
) -> None:
    key = record_script("one.py", 8.0)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await app.handlers.open(key)
        await pilot.press("6")
        await pilot.pause()
        assert "measured on this machine  12.0 ms" in screen_text(app)
        await pilot.press("1", "up")
        await pilot.press("6")
        await pilot.pause()
        assert "one.py (mode" not in screen_text(app)


async def test_a_script_cannot_be_resumed_as_an_experiment(
    make_app: MakeApp, until: Until
) -> None:
    key = record_script("one.py", 8.0)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await app.handlers.open(key)
        await pilot.press("r")
        await pilot.pause()
        assert f"cannot resume: run {key}: is a run of a script" in screen_text(app)
        await pilot.press("e")
        await pilot.pause()
        assert f"cannot evaluate: run {key}: is a run of a script" in screen_text(app)
        await pilot.press("a")
        await pilot.pause()
        assert "cannot run: there is no /somewhere/one.py" in screen_text(app)
        assert not app.runs.started
