"""The controllers without a screen: what they do, and what they ask of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec
from tests.ui.runs.scripted_runs import ScriptedRunner, record_run
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import load_preset
from workbench.locations import user_presets_directory
from workbench.models.model_source import parse_source
from workbench.models.source_files import content_key
from workbench.models.source_model import (
    SourceModel,
    TensorFacts,
    save_source_model,
)
from workbench.runs.events import EpochEnded, RunEnded, RunStarted, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run
from workbench.scripts.script_command import ScriptCommand
from workbench.settings import load_settings
from workbench.ui.controllers.experiment import ExperimentController
from workbench.ui.controllers.runs import RunController
from workbench.ui.controllers.scripts import ScriptController


class PlainView:
    """Answers questions with what it was given; threads are run at once."""

    def __init__(self, answer: str = "", agrees: bool = True) -> None:
        self.answer, self.agrees = answer, agrees
        self.said: list[str] = []
        self.area = ""
        self.left = False

    def say(self, text: str, bad: bool = False) -> None:
        self.said.append(text)

    def experiment_shown(self) -> None: ...

    def runs_shown(self) -> None: ...

    def copy_to_clipboard(self, text: str) -> None: ...

    async def show_area(self, name: str) -> None:
        self.area = name

    async def ask_text(self, question: str, proposal: str) -> str | None:
        return self.answer

    async def ask_model(self) -> str | None:
        return self.answer

    async def confirm(self, question: str, yes: str, no: str) -> bool:
        self.said.append(question)
        return self.agrees

    async def choose(self, question: str, answers: Sequence[tuple[str, str]]) -> str:
        return answers[1][0]

    def run_worker(self, work: Callable[[], object], **options: Any) -> object:
        return work()

    def call_from_thread(self, callback: Callable[..., object], *args: Any) -> object:
        return callback(*args)

    def exit(self) -> None:
        self.left = True


async def test_save_asks_before_it_replaces_a_preset() -> None:
    view = PlainView(answer="my-own")
    experiment = ExperimentController(view, "mnist-dense")
    experiment.draft.set({"data.batch_size": 16})
    await experiment.save()
    experiment.draft.set({"data.batch_size": 8})
    view.agrees = False
    await experiment.save()
    assert load_preset("my-own").tables["data"]["batch_size"] == 16
    view.agrees = True
    await experiment.save()
    assert load_preset("my-own").tables["data"]["batch_size"] == 8


async def test_wrong_experiment_is_neither_run_nor_saved() -> None:
    view = PlainView(answer="my-own")
    experiment = ExperimentController(view, "mnist-dense")
    experiment.draft.set({"data.batch_size": 0})
    assert experiment.runnable() is None
    await experiment.save()
    assert [text.partition(":")[0] for text in view.said] == [
        "cannot run",
        "cannot save",
    ]


async def test_finished_run_can_be_run_again_but_not_resumed() -> None:
    key = record_run("mnist-dense")
    view = PlainView()
    runs = RunController(view, ScriptedRunner())
    runs.look_for_records()
    await runs.resume(key)
    assert view.said == ["the run is finished: nothing is left to do"]
    await runs.again(key)
    runs.refresh()
    assert view.area == "run"
    assert runs.known.viewed_monitor is runs.board.runs[0].monitor
    assert runs.board.runs[0].monitor.status is RunStatus.FINISHED


async def test_leaving_keeps_waiting_runs_in_the_queue() -> None:
    view = PlainView()
    runs = RunController(view, ScriptedRunner(events=()))
    experiment = ExperimentController(view, "mnist-dense")
    spec = experiment.runnable()
    assert spec is not None
    await runs.start(spec, "first")
    await runs.start(spec, "second")
    await runs.ask_to_leave()
    runs.refresh()
    states = [run.monitor.status for run in runs.board.runs]
    assert states == [RunStatus.FINISHED, RunStatus.QUEUED]
    assert view.left


async def test_runs_can_be_taken_out_of_the_queue() -> None:
    view = PlainView()
    runs = RunController(view, ScriptedRunner(events=()))
    spec = ExperimentController(view, "mnist-dense").runnable()
    assert spec is not None
    for name in ("first", "second", "third"):
        await runs.start(spec, name)
    await runs.keeping.delete(runs.board.runs[1].key)
    await runs.start(spec, "fourth")
    keys = {run.key: run.monitor.preset for run in runs.board.runs}
    assert list(keys.values()) == ["first", "third", "fourth"]


async def test_a_model_is_opened_as_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "mine.keras"
    path.write_bytes(b"read before")
    layers = [
        LayerSpec("input", "Input", {"shape": [8]}),
        LayerSpec("out", "Dense", {"units": 3, "activation": "softmax"}, ("input",)),
    ]
    ends = (TensorFacts("input", (8,)),), (TensorFacts("out", (3,)),)
    read = SourceModel(resolve_model(layers)[0], (), *ends)
    save_source_model(content_key(parse_source(str(path))), read)
    view = PlainView(answer=str(path))
    experiment = ExperimentController(view)
    await experiment.open_model()
    spec = experiment.runnable()
    assert spec is not None, view.said
    assert experiment.current_preset == "mine"
    assert [layer.name for layer in spec.model.layers] == ["input", "out"]
    assert not experiment.changed_presets()
    experiment.copy_command()
    assert view.said[-1] == f"copied: ipu-workbench run {path}"


async def test_what_is_no_model_is_not_opened(tmp_path: Path) -> None:
    view = PlainView(answer=str(tmp_path / "none.keras"))
    experiment = ExperimentController(view, "mnist-dense")
    await experiment.open_model()
    assert "No such file" in view.said[-1]
    view.answer = "mnist-ipu"
    await experiment.open_model()
    assert "names no model" in view.said[-1]
    assert experiment.current_preset == "mnist-dense"


async def test_code_of_a_preset_is_run_only_when_the_user_trusts_it() -> None:
    folder = user_presets_directory()
    folder.mkdir(parents=True)
    ran = folder / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\n")
    text = '[experiment]\ntitle = "t"\n[model]\nsource = "own.py:build"\n'
    (folder / "mine.toml").write_text(text)
    view = PlainView(agrees=False)
    experiment = ExperimentController(view, "mine")
    await experiment.read_sources()
    assert "Do you trust its author?" in view.said[-1]
    assert not ran.exists()
    view.agrees = True
    await experiment.read_sources()
    assert ran.exists()
    assert "has no function build" in view.said[-1]


def test_variables_change_every_preset_as_they_do_without_the_app() -> None:
    epochs = {"IPU_WORKBENCH_TRAIN__EPOCHS": "7"}
    settings = load_settings(environment=epochs | {"IPU_WORKBENCH_TRAIN__EPOCH": "1"})
    experiment = ExperimentController(PlainView(), "mnist-dense", settings.changes)
    headless = load_experiment("mnist-dense", (), epochs)
    assert experiment.draft.spec == headless.spec
    assert experiment.draft.changed() == ["train.epochs"]
    experiment.current_preset = "mnist-cpu"
    assert experiment.draft.value("train.epochs") == 7
    (problem,) = settings.problems
    assert str(problem) == (
        "IPU_WORKBENCH_TRAIN__EPOCH: unknown field; did you mean "
        "IPU_WORKBENCH_TRAIN__EPOCHS?"
    )


async def test_a_resumed_run_stays_one_run_and_knows_what_it_did_before() -> None:
    def runner(spec: Any, control: Any, emit: Any, **options: Any) -> RunStatus:
        record = open_run(options["resume"]).reopen()
        record.resumed(first_epoch=2)
        for event in (RunStarted(record.run_id, "mnist-dense", {}), *second_epoch):
            record.append(event)
            emit(event)
        record.finish(RunStatus.STOPPED, "", {})
        return RunStatus.STOPPED

    second_epoch = (
        EpochEnded(2, 0.5, 0.8, 1.0, 100.0, 1.0),
        RunEnded(RunStatus.STOPPED),
    )
    key = record_run("mnist-dense", status=RunStatus.STOPPED, epochs=2)
    runs = RunController(PlainView(), runner)
    for _ in range(2):
        runs.look_for_records()
        await runs.resume(key)
        runs.refresh()
        (entry,) = runs.known.entries()
        assert entry.run_id == key
    monitor = runs.known.monitor(key)
    assert monitor is runs.known.viewed_monitor
    assert monitor is not None
    assert [(item.epoch, round(item.loss, 1)) for item in monitor.epochs] == [
        (1, 0.7),
        (2, 0.5),
    ]


async def test_a_run_that_waits_to_be_resumed_is_not_resumed_twice() -> None:
    key = record_run("mnist-dense", status=RunStatus.STOPPED)
    view = PlainView()
    runs = RunController(view, ScriptedRunner())
    view.run_worker = lambda work, **options: (  # type: ignore[method-assign]
        work() if options["group"] == "records" else None
    )
    runs.look_for_records()
    await runs.resume(key)
    await runs.resume(key)
    assert view.said[-1] == "only a run that has ended can be resumed"
    assert len(runs.board.runs) == 1


def _recorded(tables: dict[str, Any], name: str) -> str:
    record = RunRecord.create(tables, name)
    record.finish(RunStatus.STOPPED)
    return record.run_id


async def test_a_script_that_a_record_names_runs_only_when_trusted(
    tmp_path: Path,
) -> None:
    ran, script = tmp_path / "ran", tmp_path / "evil.py"
    script.write_text(f"open({str(ran)!r}, 'w')\n")
    about = {"file": str(script), "arguments": [], "directory": str(tmp_path)}
    key = _recorded({"script": about}, "train.py")
    view = PlainView(agrees=False)
    runs = RunController(view, ScriptedRunner())
    scripts = ScriptController(view, ExperimentController(view, "mnist-dense"), runs)
    runs.look_for_records()
    runs.known.chosen = key
    await runs.again(key)
    assert f"{script} has not run here as it is now" in view.said[-1]
    view.answer = str(tmp_path / "captured.toml")
    await scripts.capture()
    assert f"{script} has not run here as it is now" in view.said[-1]
    assert not runs.board.runs
    assert not ran.exists()
    view.agrees = True
    await runs.again(key)
    assert ran.exists()
    asked = [text for text in view.said if "Do you trust" in text]
    await runs.again(key)
    assert [text for text in view.said if "Do you trust" in text] == asked


async def test_a_script_that_the_user_has_opened_may_change(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("")
    view = PlainView(agrees=False)
    runs = RunController(view, ScriptedRunner())
    await runs.open_script(ScriptCommand(str(script)))
    script.write_text("print('better')\n")
    await runs.start_script(ScriptCommand(str(script)))
    assert len(runs.board.runs) == 1
    assert not [text for text in view.said if "Do you trust" in text]


async def test_code_that_a_record_names_runs_only_when_trusted(tmp_path: Path) -> None:
    ran, code = tmp_path / "ran", tmp_path / "evil.py"
    code.write_text(f"open({str(ran)!r}, 'w')\n")
    tables = dict(load_preset("mnist-dense").tables)
    source = parse_source(f"{code}:build")
    tables["model"] = {"source": source.text, "content": content_key(source)}
    key = _recorded(tables, "mnist-dense")
    view = PlainView(agrees=False)
    runs = RunController(view, ScriptedRunner())
    runs.look_for_records()
    for action in (runs.again, runs.resume, runs.evaluate):
        await action(key)
        assert f"the record runs {code}:build" in view.said[-1]
    assert not ran.exists()
    view.agrees = True
    await runs.resume(key)
    assert "has no function build" in view.said[-1]
    assert ran.exists()
