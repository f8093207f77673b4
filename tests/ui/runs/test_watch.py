"""Scripts in the app: opened, run in a process of their own, followed, captured."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.ui.conftest import MakeApp, Until
from tests.ui.screen_text import check_snapshot, screen_text
from workbench.runs.events import (
    CallBegan,
    CallEnded,
    Compiled,
    EpochEnded,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_context import RunControl
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs
from workbench.scripts.script_command import ScriptCommand
from workbench.ui.app import WorkbenchApp

SIZES = [(80, 24), (120, 40)]
TRAINING = """
import sys
import numpy as np
import keras
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
with ipu.ipu_strategy.IPUStrategy().scope():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(8),
         keras.layers.Dense(2)]
    )
    model.set_pipeline_stage_assignment([0, 0, 1])
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    model.compile("sgd", "mse", steps_per_execution=8)
    x = np.ones((64, 4), "float32")
    model.fit(x, x[:, :2], batch_size=4, epochs=int(sys.argv[1]), verbose=0)
print("trained", sys.argv[1], "epochs")
"""


async def type_script(pilot: Pilot[None], file: str, arguments: str) -> None:
    """Fill in the form that opens a script."""
    await pilot.press("o")
    await pilot.pause()
    fields = pilot.app.screen.query(Input)
    fields[0].value, fields[1].value = file, arguments
    await pilot.press("enter")
    await pilot.pause()


async def ends(
    pilot: Pilot[None], app: WorkbenchApp, until: Until, number: int
) -> None:
    """Wait for the end of a run, and for its record to be known."""
    await until(pilot, lambda: len(app.runs.started) == number)
    run = app.runs.started[-1]
    await until(pilot, lambda: not run.view.live)
    await until(pilot, lambda: app.runs.record(run.key))
    await pilot.pause()


@pytest.mark.slow
async def test_a_script_is_run_captured_changed_and_compared(
    make_app: MakeApp, until: Until, tmp_path: Path
) -> None:
    (tmp_path / "tiny.py").write_text(TRAINING, encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await type_script(pilot, "tiny.py", "2")
        assert "F5 runs it as it is" in screen_text(app)
        await pilot.press("f5")
        await ends(pilot, app, until, 1)
        first = app.runs.started[0]
        assert first.view.status is RunStatus.FINISHED, first.view.message
        assert len(first.view.epochs) == 2
        text = screen_text(app)
        assert "fit 1: 2 x 16 steps" in text
        assert "trained 2 epochs" in text
        await pilot.press("k")
        await until(pilot, lambda: app.screen.query(Input))
        assert app.screen.query_one(Input).value == str(Path("tiny.toml"))
        await pilot.press("enter")
        await until(pilot, lambda: app.session.current_preset == "tiny")
        app.session.draft.set_text("pipeline.stages", "[0, 1, 1]")
        app.session.draft.set_text("execution.accumulation_reduction", "mean")
        await pilot.press("3")
        await pilot.pause()
        assert "no problems" in screen_text(app)
        app.session.draft.set_text("train.optimizer", "adam")
        await pilot.press("f5")
        await pilot.pause()
        assert "cannot run: train.optimizer: no call of a script" in screen_text(app)
        problem = app.session.draft.problem_at("train.optimizer")
        assert problem is not None
        await pilot.press("u", "f5")
        await ends(pilot, app, until, 2)
        second = app.runs.started[1]
        assert second.view.status is RunStatus.FINISHED, second.view.message
        await pilot.press("6")
        await pilot.pause()
        assert "pipeline.stages: [0, 0, 1] -> [0, 1, 1]" in screen_text(app)
        assert app.handlers.marked.keys == [first.key, second.key]
        await pilot.press("5")
        await pilot.pause()
        assert "pipeline.stages" in screen_text(app)


@pytest.mark.slow
async def test_a_script_of_the_command_line_starts_at_once_and_quitting_stops_it(
    make_app: MakeApp, until: Until, tmp_path: Path
) -> None:
    text = "import time\nprint('ready')\ntime.sleep(600)"
    (tmp_path / "waits.py").write_text(text, encoding="utf-8")
    app = make_app(script=ScriptCommand("waits.py", ("--fast",)))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "ready" in screen_text(app))
        assert "waits.py --fast" in screen_text(app)
        assert "p pause" not in screen_text(app)
        await pilot.press("p")
        await pilot.pause()
        assert "a script cannot be paused" in screen_text(app)
        await pilot.press("q")
        await pilot.pause()
        assert "waits.py is running. Stop it, keep its record" in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: not app.runs.started[0].view.live)
    assert list_runs()[0].status is RunStatus.STOPPED


@pytest.mark.slow
async def test_a_script_that_asks_is_told_to_use_arguments(
    make_app: MakeApp, until: Until, tmp_path: Path
) -> None:
    (tmp_path / "asks.py").write_text("input('name? ')", encoding="utf-8")
    app = make_app(script=ScriptCommand("asks.py"))
    async with app.run_test(size=(80, 24)) as pilot:
        await ends(pilot, app, until, 1)
        text = screen_text(app)
        assert "failed: EOFError" in text
        assert "it asks for input, which it has none of here" in text


async def test_what_cannot_be_opened_keeps_the_form_open(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await type_script(pilot, "nowhere.py", "")
        assert "nowhere.py: there is no such file" in screen_text(app)
        app.screen.query(Input)[1].value = "'open"
        await pilot.press("enter", "f5")
        await pilot.pause()
        assert "arguments: No closing quotation" in screen_text(app)
        assert not app.runs.started
        await pilot.press("escape")
        assert app.handlers.scripts.opened is None


async def test_a_preset_takes_f5_back_from_a_script(
    make_app: MakeApp, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("", encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await type_script(pilot, "one.py", "")
        assert "F5 runs one.py" in screen_text(app)
        await pilot.press("2")
        await pilot.pause()
        assert "F5 runs mnist-ipu-pipelined again; o opens one.py" in screen_text(app)
        assert app.handlers.scripts.opened is None


def script_events() -> list[Event]:
    """Return what a script sends that fits twice, the second time not to the end."""

    def fit(call: str, epochs: int) -> list[Event]:
        events: list[Event] = [
            CallBegan(call, "fit", "sequential", epochs, 40, "plans/1.json"),
            Compiled("training", 1.5, 40.0),
        ]
        for epoch in range(1, epochs + 1):
            for step in range(4, 41, 4):
                loss = 2.0 / (epoch + step / 40)
                numbers = {"loss": loss}
                events.append(
                    Progressed(epoch, step, 40, loss, None, 15.0, 250.0, call, numbers)
                )
            events.append(
                EpochEnded(epoch, loss, None, 15.0, 250.0, 0.6, call, numbers)
            )
        return events

    return [*fit("fit 1", 2), CallEnded("fit 1", 1.2), *fit("fit 2", 2)[:-4]]


def held_script(record: RunRecord) -> Callable[..., None]:
    """Return a job that sends a script's events and then waits for its stop."""

    def job(
        control: RunControl, emit: Callable[[Event], None], **options: object
    ) -> None:
        begun = RunStarted(record.run_id, "train.py", {})
        ticks = count(1_700_000_000)
        record.append_all(
            [(event, float(next(ticks))) for event in (begun, *script_events())]
        )
        emit(begun)
        control.stop.wait(timeout=60)
        emit(RunEnded(RunStatus.STOPPED))

    return job


@pytest.mark.parametrize("size", SIZES)
async def test_watching(make_app: MakeApp, until: Until, size: tuple[int, int]) -> None:
    command = ScriptCommand("/somewhere/train.py", ("--epochs", "2"))
    record = RunRecord.create(command.tables, "train.py")
    log = "loading the data\nEpoch 1/2\n\x1b[32mEpoch 2/2\x1b[0m\nagain\n"
    record.log.write_text(log)
    app = make_app()
    async with app.run_test(size=size) as pilot:
        app.handlers.scripts.opened = command
        run = app.runs.start_job(held_script(record), command.tables, command.name)
        await app.handlers.open(run.key)
        expected = len(script_events()) + 1
        await until(pilot, lambda: run.view.events_seen == expected)
        await app.run_action("call_before", default_namespace=app.main.area)
        await pilot.pause()
        seen = screen_text(app)
        # The app waits for its runs, also after a test has failed.
        run.control.stop.set()
    record.close()
    check_snapshot(f"watch-{size[0]}x{size[1]}", seen)


async def test_a_script_of_another_process_is_followed(
    make_app: MakeApp, until: Until
) -> None:
    record = RunRecord.create({"script": {"file": "/far/train.py"}}, "train.py")
    first, *rest = script_events()
    record.append_all([(RunStarted(record.run_id, "train.py", {}), 1.0), (first, 2.0)])
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.press("4")
        await until(pilot, lambda: "fit 1: 2 x 40 steps" in screen_text(app))
        assert "the loss grows here" in screen_text(app)
        record.append_all([(event, 3.0) for event in rest])
        record.log.write_text("from far away\n")
        await until(pilot, lambda: "from far away" in screen_text(app))
        assert "fit 2: 2 x 40 steps" in screen_text(app)
        await until(pilot, lambda: "the loss grows here" not in screen_text(app))
        record.finish(RunStatus.FINISHED)
        await until(pilot, lambda: "✓ finished" in screen_text(app))
