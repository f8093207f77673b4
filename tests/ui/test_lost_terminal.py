"""The app while its terminal misbehaves: it goes away, or changes size all the time."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import ScriptedRunner
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset, save_preset

pytestmark = pytest.mark.slow


def _description(home: Path) -> dict[str, Any]:
    (run,) = (home / "runs").glob("[0-9]*")
    return dict(json.loads((run / "run.json").read_text()))


def _app_with_live_run() -> Any:
    """Open the app in a terminal and start a run that would last for hours."""
    changes = ["train.epochs=100000", "data.train_samples=256", "execution.api=cpu"]
    tables, _ = apply_overrides(load_preset("mnist-cpu").tables, changes)
    save_preset("aaa-long", tables)
    child = pexpect.spawn(
        sys.executable,
        ["-m", "workbench"],
        env={**os.environ, "TERM": "xterm-256color"},
        dimensions=(40, 120),
        encoding="utf-8",
        timeout=120,
    )
    child.expect("Where a step")
    child.send("/")
    child.expect("esc clears")
    child.send("aaa-long")
    child.expect("no run contains")
    child.send("\r\x12")
    child.expect("epoch 1")
    return child


def test_a_lost_terminal_stops_the_run_and_keeps_its_record(home: Path) -> None:
    child = _app_with_live_run()
    os.close(child.child_fd)
    os.waitpid(child.pid, 0)
    assert _description(home)["status"] == "stopped"


def test_a_request_to_end_stops_the_run_and_restores_the_terminal(home: Path) -> None:
    child = _app_with_live_run()
    os.kill(child.pid, signal.SIGTERM)
    child.expect_exact("\x1b[?1049l")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert _description(home)["status"] == "stopped"


async def test_a_storm_of_sizes_while_a_run_is_live(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=12), preset="mnist-ipu-pipelined")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f5")
        await until(pilot, lambda: app.runs.active)
        for key in ("4", "3"):
            await pilot.press(key)
            for size in ((1, 1), (200, 3), (3, 200), (80, 24), (79, 23), (250, 80)):
                await pilot.resize_terminal(*size)
        await pilot.resize_terminal(120, 40)
        app.handlers.leave()
        await until(pilot, lambda: app.runs.started[0].ended.is_set())
