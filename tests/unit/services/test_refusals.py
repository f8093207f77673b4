"""App and command refuse alike: the same problem, the same hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec
from tests.ui.conftest import OpenedApp
from tests.ui.runs.scripted_runs import ScriptedRunner, record_run
from workbench.experiment.preset_store import load_preset
from workbench.headless import main as command_line
from workbench.models.captured_model import CapturedModel, write_capture
from workbench.models.model_source import CAPTURE_ENDING, parse_source
from workbench.models.source_files import content_key
from workbench.models.source_model import SourceModel, TensorFacts
from workbench.runs.events import RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs
from workbench.scripts.script_command import ScriptCommand
from workbench.services.scripts import capturing
from workbench.ui.app import WorkbenchApp
from workbench.ui.app_options import AppOptions

Act = Callable[[WorkbenchApp], object]


@dataclass(frozen=True)
class Case:
    """The same thing asked of both."""

    words: tuple[str, ...]
    """Of the command."""
    act: Act
    """What a key of the app does."""
    preset: str = "mnist-dense"


def recorded(tables: dict[str, object], status: RunStatus | None) -> str:
    """Leave the record of a run; without a status it is live."""
    record = RunRecord.create(tables, "mnist-dense")
    if status is not None:
        record.finish(status)
    return record.run_id


def resume_finished(folder: Path) -> Case:
    key = record_run("mnist-dense")
    return Case(("run", "--resume", key), lambda app: app.handlers.resume(key))


def resume_live(folder: Path) -> Case:
    key = recorded(dict(load_preset("mnist-dense").tables), None)
    return Case(("run", "--resume", key), lambda app: app.handlers.resume(key))


def resume_script(folder: Path) -> Case:
    key = recorded({"script": {"file": "/far/one.py"}}, RunStatus.STOPPED)
    return Case(("run", "--resume", key), lambda app: app.handlers.resume(key))


def resume_lost_source(folder: Path) -> Case:
    tables = dict(load_preset("mnist-dense").tables)
    source = f"{folder}/gone.py:build"
    tables["model"] = {"source": source, "content": "as it was"}
    key = recorded(tables, RunStatus.STOPPED)
    return Case(("run", "--resume", key), lambda app: app.handlers.resume(key))


def trust(folder: Path) -> Case:
    (folder / "evil.py").write_text("raise SystemExit('it ran')\n")
    tables = dict(load_preset("mnist-dense").tables)
    source = parse_source(f"{folder}/evil.py:build")
    tables["model"] = {"source": source.text, "content": content_key(source)}
    key = recorded(tables, RunStatus.STOPPED)
    return Case(("run", "--resume", key), lambda app: app.handlers.resume(key))


def run_wrong_value(folder: Path) -> Case:
    def act(app: WorkbenchApp) -> object:
        app.session.draft.set_text("data.batch_size", "0")
        return app.handlers.start()

    return Case(("run", "mnist-dense", "--set", "data.batch_size=0"), act)


def run_device_refuses(folder: Path) -> Case:
    change = "execution.gradient_accumulation", "7"

    def act(app: WorkbenchApp) -> object:
        app.session.draft.set_text(*change)
        return app.handlers.start()

    words = ("run", "mnist-ipu-pipelined", "--set", "=".join(change))
    return Case(words, act, "mnist-ipu-pipelined")


def capture_over_script(folder: Path) -> Case:
    script = folder / "own.py"
    script.write_text("")
    return Case(
        ("capture", str(script), "--output", str(script)),
        lambda app: capturing_to(app, script, str(script)),
    )


def capture_to_directory(folder: Path) -> Case:
    script = folder / "own.py"
    script.write_text("")
    return Case(
        ("capture", str(script), "--output", str(folder)),
        lambda app: capturing_to(app, script, str(folder)),
    )


def capturing_to(app: WorkbenchApp, script: Path, output: str) -> None:
    """Capture the script as the app does, once the file is named."""
    command = ScriptCommand(str(script))
    app.handlers.scripts.name(command)
    with app.handlers.refusals("capture"):
        capturing(command, output)


def delete_live(folder: Path) -> Case:
    key = recorded({}, None)

    def act(app: WorkbenchApp) -> None:
        with app.handlers.refusals():
            app.runs.delete(key)

    return Case(("runs", "delete", key, "--yes"), act)


def tag_that_is_none(folder: Path) -> Case:
    key = record_run("mnist-dense")

    def act(app: WorkbenchApp) -> None:
        with app.handlers.refusals():
            app.runs.annotate(key, tags=("a/b",))

    return Case(("runs", "tag", key, "a/b"), act)


def overlay_no_call_takes(folder: Path) -> Case:
    script = folder / "own.py"
    script.write_text("")
    layers = [
        LayerSpec("input", "Input", {"shape": [28, 28, 1]}),
        LayerSpec("flat", "Flatten", {}, ("input",)),
        LayerSpec("out", "Dense", {"units": 10, "activation": "softmax"}, ("flat",)),
    ]
    ends = (TensorFacts("input", (28, 28, 1)),), (TensorFacts("out", (10,)),)
    model = SourceModel(resolve_model(layers)[0], (), *ends)
    captured = folder / f"own{CAPTURE_ENDING}"
    write_capture(captured, CapturedModel(str(script), (), "fit-1", model, {}))
    file = folder / "own.toml"
    text = f'[experiment]\ntitle = "t"\n[model]\nsource = "{captured.name}"\n'
    file.write_text(text)

    async def act(app: WorkbenchApp) -> None:
        assert await app.handlers.load(str(file)), app.main._said
        app.session.draft.set_text("train.optimizer", "adam")
        await app.handlers.start()

    return Case(("exec", "--set", "train.optimizer=adam", str(script)), act)


@pytest.mark.parametrize(
    "case",
    [
        resume_finished,
        resume_live,
        resume_script,
        resume_lost_source,
        trust,
        run_wrong_value,
        run_device_refuses,
        capture_over_script,
        capture_to_directory,
        delete_live,
        tag_that_is_none,
        overlay_no_call_takes,
    ],
    ids=lambda case: case.__name__,
)
async def test_app_and_command_refuse_alike(
    case: Callable[[Path], Case], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = case(tmp_path)
    before = len(list_runs())
    code = command_line.main([*asked.words], {}, lambda **_: pytest.fail("app"))
    assert code != 0
    printed = [
        line.removeprefix("warning: ") for line in capsys.readouterr().err.splitlines()
    ]
    app = OpenedApp(AppOptions(preset=asked.preset, runner=ScriptedRunner()))
    said: list[str] = []
    async with app.run_test(size=(120, 40)) as pilot:
        app.runs.look()
        await app.workers.wait_for_complete()
        app.runs.follow()

        async def act() -> None:
            result = asked.act(app)
            if result is not None:
                await result  # type: ignore[misc]

        worker = app.run_worker(act())
        while not worker.is_finished:
            await pilot.pause()
            if app.screen is not app.main:
                await pilot.press("n")
        text, bad = app.main._said
        assert bad
        said.append(re.sub(r"^cannot \w+: ", "", text))
    assert said[0] in printed or any(line.endswith(said[0]) for line in printed)
    assert len(list_runs()) == before
