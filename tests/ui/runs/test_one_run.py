"""One way from an event to the screen, whoever works on a run."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.ui.conftest import MakeApp, Until, run_to_the_end
from tests.ui.runs.scripted_runs import ScriptedRunner
from tests.ui.runs.test_watch import held_script
from tests.ui.screen_text import screen_text
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs
from workbench.scripts.script_command import ScriptCommand
from workbench.ui.app import WorkbenchApp
from workbench.ui.app_options import real_runner
from workbench.ui.widgets.chart import ChartView

ROOT = Path(workbench.__file__).parent
SIZE = (120, 40)
MOST_FILES = 20
ENDS = {
    "runs/run_record.py",
    "runs/record_follower.py",
    "runs/run_view.py",
    "runs/series.py",
    "ui/widgets/chart.py",
}
"""Where the stacks from F5 to a point on the chart lead."""


def area_text(app: WorkbenchApp) -> list[str]:
    """Return what the Run area shows."""
    region = app.main.area.region
    lines = screen_text(app).splitlines()[region.y : region.bottom]
    return [line[region.x : region.right].rstrip() for line in lines]


async def elsewhere(make_app: MakeApp, until: Until) -> list[str]:
    """Return the Run area of an app that has started no run itself."""
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.runs.records)
        await app.handlers.open(app.runs.records[0].run_id)
        await pilot.pause()
        return area_text(app)


def files_of_stack() -> list[str]:
    """Return the files of the workbench that have led to a call, outermost first."""
    files = [Path(frame.filename) for frame in inspect.stack(0)][::-1]
    found = [str(f.relative_to(ROOT)) for f in files if f.is_relative_to(ROOT)]
    return list(dict.fromkeys(found))


async def test_an_own_run_is_shown_as_one_of_another_process(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        await run_to_the_end(pilot, app)
        own = area_text(app)
    assert any("after 2 epochs" in line for line in own)
    assert await elsewhere(make_app, until) == own


async def test_an_own_script_is_shown_as_one_of_another_process(
    make_app: MakeApp, until: Until
) -> None:
    command = ScriptCommand("/somewhere/train.py")
    record = RunRecord.create(command.tables, "train.py")
    app = make_app()
    async with app.run_test(size=SIZE) as pilot:
        run = app.runs.start_job(held_script(record), command.tables, command.name)
        await app.handlers.open(run.key)
        await until(pilot, lambda: len(run.view.calls) == 2)
        await pilot.pause()
        own = area_text(app)
        other = await elsewhere(make_app, until)
        run.control.stop.set()
    record.close()
    assert any("fit 2: 2 x 40 steps" in line for line in own)
    assert other == own


async def test_the_plan_of_the_screen_is_that_of_the_run(make_app: MakeApp) -> None:
    plans: list[Any] = []

    class Noting(ScriptedRunner):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            plans.append(options["plan"])
            return super().__call__(*arguments, **options)

    app = make_app(Noting())
    async with app.run_test(size=SIZE) as pilot:
        shown = app.session.draft.plan
        await run_to_the_end(pilot, app)
    assert len(plans) == 1
    assert plans[0] is shown is not None


@pytest.mark.slow
async def test_from_f5_to_a_point_there_are_few_files(
    make_app: MakeApp, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = set(ENDS)
    show = ChartView.show_curves

    def shown(chart: ChartView, curves: Any, *more: Any, **options: Any) -> None:
        if curves and curves[0].curve.ys:
            files.update(files_of_stack())
        show(chart, curves, *more, **options)

    def runner(spec: Any, control: Any, emit: Any, **options: Any) -> Any:
        files.update(files_of_stack())

        def told(event: Any) -> None:
            files.update(files_of_stack())
            emit(event)

        return real_runner(spec, control, told, **options)

    monkeypatch.setattr(ChartView, "show_curves", shown)
    app = make_app(runner, preset="mnist-dense")
    app.session.draft.set(
        {
            "data.train_samples": 512,
            "data.test_samples": 128,
            "train.epochs": 1,
            "train.steps_per_epoch": 16,
            "execution.steps_per_execution": 16,
        }
    )
    app.runs.queue_changed.connect(lambda _: files.update(files_of_stack()))
    app.runs.run_grew.connect(lambda _: files.update(files_of_stack()))
    async with app.run_test(size=SIZE) as pilot:
        files.clear()
        files |= ENDS
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: not run.view.live)
        await pilot.pause()
    assert {"ui/handlers.py", "runs/runner.py", "ui/areas/run.py"} <= files
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(list_runs()) == 1
