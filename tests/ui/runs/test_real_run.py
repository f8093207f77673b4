"""The app with the real runner: TensorFlow, records and scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ui.conftest import MakeApp, Until
from tests.ui.screen_text import screen_text
from workbench.runs.events import EpochEnded, Event, RunStatus
from workbench.runs.run_store import list_runs
from workbench.ui.app_options import real_runner

pytestmark = pytest.mark.slow

SMALL = {
    "data.train_samples": 512,
    "data.test_samples": 128,
    "train.epochs": 2,
    "train.steps_per_epoch": 16,
    "execution.steps_per_execution": 16,
}


async def test_small_preset_runs_to_the_end(make_app: MakeApp, until: Until) -> None:
    app = make_app(real_runner, preset="mnist-dense")
    app.session.draft.set(SMALL)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: not run.view.live)
        await pilot.pause()
        assert run.view.status is RunStatus.FINISHED, run.view.message
        assert "after 2 epochs" in screen_text(app)
        assert run.view.evaluation is not None
        await app.workers.wait_for_complete()
        await pilot.press("e")
        await until(pilot, lambda: app.runs.started != [run])
        evaluation = app.runs.started[0].view
        await until(pilot, lambda: not evaluation.live)
        assert evaluation.evaluation == run.view.evaluation
        assert evaluation.epochs == run.view.epochs
    stored = list_runs()
    assert [item.status for item in stored] == [RunStatus.FINISHED]
    assert len(stored[0].series().epochs["loss"].ys) == 2


def runner_held_in_the_middle(*arguments: Any, **options: Any) -> Any:
    """Run for real, but wait after the second epoch until somebody stops the run."""
    spec, control, emit = arguments

    def told(event: Event) -> None:
        emit(event)
        if isinstance(event, EpochEnded) and event.epoch == 2:
            control.stop.wait()

    return real_runner(spec, control, told, **options)


async def test_stop_in_the_middle_keeps_the_record_and_resume_ends_it(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(runner_held_in_the_middle, preset="mnist-dense")
    app.session.draft.set(SMALL | {"train.epochs": 6})
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: len(run.view.epochs) == 2)
        await pilot.press("s", "y")
        await until(pilot, lambda: not run.view.live)
        assert run.view.status is RunStatus.STOPPED
        assert len(run.view.epochs) == 2
        await app.workers.wait_for_complete()
        app.runs.look()
        await app.workers.wait_for_complete()
        await pilot.press("r")
        await until(pilot, lambda: app.runs.started != [run])
        (resumed,) = app.runs.started
        await until(pilot, lambda: not resumed.view.live)
        assert resumed.view.status is RunStatus.FINISHED, resumed.view.message
        assert [epoch.epoch for epoch in resumed.view.epochs] == [*range(1, 7)]
    (stored,) = list_runs()
    assert len(stored.series().epochs["loss"].ys) == 6


@pytest.mark.thorough
async def test_exported_script_runs_on_the_emulator(
    make_app: MakeApp, tmp_path: Path
) -> None:
    app = make_app(preset="mnist-dense")
    app.session.draft.set(SMALL | {"train.epochs": 1})
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("7")
        await pilot.pause()
        await pilot.press("e")
        await pilot.pause()
        await pilot.press("enter")
        await app.workers.wait_for_complete()
    script = tmp_path / "mnist_dense.py"
    done = subprocess.run(
        [sys.executable, "-m", "ipu_runtime", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "loss" in done.stdout
