"""The services without a screen: what they do, refuse and tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec
from tests.ui.runs.scripted_runs import ScriptedRunner, record_run
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import PresetError, load_preset
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
from workbench.services.refused import Refused
from workbench.services.runs import RunRequest, Runs
from workbench.services.scripts import Scripts, capturing
from workbench.services.session import Session, check_is_model
from workbench.services.trust import Untrusted
from workbench.settings import load_settings


def at_once(work: Callable[[], None], name: str) -> None:
    """Stand for a thread that has done its work when it is looked at."""
    work()


def known_runs(runner: Any = None) -> Runs:
    """Return the runs of all records."""
    runs = Runs(runner or ScriptedRunner(), at_once)
    runs.look()
    runs.follow()
    return runs


def test_saving_replaces_only_a_preset_of_the_users_own() -> None:
    session = Session("mnist-dense")
    assert not session.is_own("mnist-dense")
    session.draft.set({"data.batch_size": 16})
    session.save("my-own")
    assert load_preset("my-own").tables["data"]["batch_size"] == 16
    assert session.is_own("my-own")
    session.draft.set({"data.batch_size": 8})
    session.save("my-own")
    assert load_preset("my-own").tables["data"]["batch_size"] == 8


def test_wrong_experiment_is_neither_run_nor_saved() -> None:
    session = Session("mnist-dense")
    session.draft.set({"data.batch_size": 0})
    with pytest.raises(Refused, match=r"data\.batch_size"):
        session.runnable()
    with pytest.raises(Refused, match=r"data\.batch_size"):
        session.save("my-own")
    with pytest.raises(PresetError):
        load_preset("my-own")


def test_every_change_is_told() -> None:
    session, told = Session("mnist-dense"), []
    session.experiment_changed.connect(lambda item: told.append(item.current_preset))
    session.draft.set_text("train.epochs", "9")
    session.draft.undo()
    session.draft.redo()
    session.choose("mnist-ipu")
    assert told == ["mnist-dense"] * 3 + ["mnist-ipu"]


def test_finished_run_can_be_run_again_but_not_resumed() -> None:
    key = record_run("mnist-dense")
    runs = known_runs()
    with pytest.raises(Refused, match="is finished: there is nothing to resume"):
        runs.begin(runs.to_resume(key))
    run = runs.begin(runs.to_repeat(key))
    runs.follow()
    assert runs.viewed_view is run.view
    assert run.view.status is RunStatus.FINISHED


def test_what_waits_stays_in_the_queue_when_it_is_held() -> None:
    runs = Runs(ScriptedRunner(events=()), at_once)
    spec = Session("mnist-dense").runnable()
    runs.start(spec, "first")
    runs.start(spec, "second")
    runs.hold_waiting()
    runs.follow()
    states = [run.view.status for run in runs.started]
    assert states == [RunStatus.FINISHED, RunStatus.QUEUED]


def test_runs_can_be_taken_out_of_the_queue() -> None:
    runs = Runs(ScriptedRunner(events=()), lambda work, name: None)
    spec = Session("mnist-dense").runnable()
    for name in ("first", "second", "third"):
        runs.start(spec, name)
    assert runs.delete(runs.started[1].key) == ""
    runs.start(spec, "fourth")
    assert [run.preset for run in runs.started] == ["first", "third", "fourth"]
    assert len({run.key for run in runs.started}) == 3


def test_a_model_is_opened_as_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "mine.keras"
    path.write_bytes(b"read before")
    layers = [
        LayerSpec("input", "Input", {"shape": [8]}),
        LayerSpec("out", "Dense", {"units": 3, "activation": "softmax"}, ("input",)),
    ]
    ends = (TensorFacts("input", (8,)),), (TensorFacts("out", (3,)),)
    read = SourceModel(resolve_model(layers)[0], (), *ends)
    save_source_model(content_key(parse_source(str(path))), read)
    session = Session()
    assert session.open(session.read(str(path))) == session.current_preset == "mine"
    spec = session.runnable()
    assert [layer.name for layer in spec.model.layers] == ["input", "out"]
    assert not session.changed_presets()
    assert session.command() == f"ipu-workbench run {path}"


def test_what_is_no_model_is_not_opened(tmp_path: Path) -> None:
    session = Session("mnist-dense")
    with pytest.raises(Refused, match="No such file"):
        session.read(str(tmp_path / "none.keras"))
    with pytest.raises(Refused, match="names no model"):
        check_is_model("mnist-ipu")
    assert session.current_preset == "mnist-dense"


def test_code_of_a_preset_is_run_only_when_the_user_trusts_it() -> None:
    folder = user_presets_directory()
    folder.mkdir(parents=True)
    ran = folder / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')\n")
    text = '[experiment]\ntitle = "t"\n[model]\nsource = "own.py:build"\n'
    (folder / "mine.toml").write_text(text)
    session = Session("mine")
    with pytest.raises(Untrusted) as refused:
        session.sources_to_read()
    assert refused.value.question.endswith("Do you trust its author?")
    assert not ran.exists()
    refused.value.allow()
    assert session.sources_to_read() == [f"{folder}/own.py:build"]
    with pytest.raises(Refused, match="has no function build"):
        session.read(str(session.draft.preset.path))
    assert ran.exists()


def test_variables_change_every_preset_as_they_do_without_the_app() -> None:
    epochs = {"IPU_WORKBENCH_TRAIN__EPOCHS": "7"}
    settings = load_settings(environment=epochs | {"IPU_WORKBENCH_TRAIN__EPOCH": "1"})
    session = Session("mnist-dense", settings.changes)
    headless = load_experiment("mnist-dense", (), epochs)
    assert session.draft.spec == headless.spec
    assert list(session.draft.changes()) == ["train.epochs"]
    session.choose("mnist-cpu")
    assert session.draft.value("train.epochs") == 7
    (problem,) = settings.problems
    assert str(problem) == (
        "IPU_WORKBENCH_TRAIN__EPOCH: unknown field; did you mean "
        "IPU_WORKBENCH_TRAIN__EPOCHS?"
    )


def test_a_resumed_run_stays_one_run_and_knows_what_it_did_before() -> None:
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
    runs = known_runs(runner)
    for _ in range(2):
        runs.begin(runs.to_resume(key))
        runs.follow()
        (entry,) = runs.entries()
        assert entry.run_id == key
    view = runs.view(key)
    assert view is runs.viewed_view
    assert view is not None
    assert [(item.epoch, round(item.loss, 1)) for item in view.epochs] == [
        (1, 0.7),
        (2, 0.5),
    ]


def test_a_run_that_waits_to_be_resumed_is_not_resumed_twice() -> None:
    key = record_run("mnist-dense", status=RunStatus.STOPPED)
    runs = known_runs()
    idle = Runs(ScriptedRunner(), lambda work, name: None)
    idle.records = runs.records
    idle.begin(idle.to_resume(key))
    with pytest.raises(Refused) as refused:
        idle.to_resume(key)
    assert refused.value.hint == "only a run that has ended can be resumed"
    assert len(idle.started) == 1


def test_a_run_whose_record_cannot_be_begun_says_why() -> None:
    def runner(*arguments: Any, **options: Any) -> RunStatus:
        raise OSError("the disk is full")

    runs = Runs(runner, at_once)
    run = runs.start(Session("mnist-dense").runnable(), "mnist-dense")
    runs.follow()
    assert run.view.status is RunStatus.FAILED
    assert run.view.message == "OSError: the disk is full"


def recorded(tables: dict[str, Any], name: str) -> str:
    """Leave the record of a run that was stopped."""
    record = RunRecord.create(tables, name)
    record.finish(RunStatus.STOPPED)
    return record.run_id


def test_a_script_that_a_record_names_runs_only_when_trusted(tmp_path: Path) -> None:
    ran, script = tmp_path / "ran", tmp_path / "evil.py"
    script.write_text(f"open({str(ran)!r}, 'w')\n")
    about = {"file": str(script), "arguments": [], "directory": str(tmp_path)}
    key = recorded({"script": about}, "train.py")
    runs = known_runs()
    scripts = Scripts(Session("mnist-dense"), runs)
    runs.chosen = key
    with pytest.raises(Untrusted, match="has not run here as it is now") as refused:
        scripts.again(key)
    with pytest.raises(Untrusted, match="has not run here as it is now"):
        capturing(scripts.to_capture(), str(tmp_path / "captured.toml"))
    assert not runs.started
    assert not ran.exists()
    refused.value.allow()
    scripts.again(key)
    assert ran.exists()


def test_a_script_that_the_user_has_opened_may_change(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("")
    runs = Runs(ScriptedRunner(), lambda work, name: None)
    scripts = Scripts(Session("mnist-dense"), runs)
    scripts.open(ScriptCommand(str(script)))
    script.write_text("print('better')\n")
    scripts.run(ScriptCommand(str(script)))
    assert len(runs.started) == 1


def test_code_that_a_record_names_runs_only_when_trusted(tmp_path: Path) -> None:
    ran, code = tmp_path / "ran", tmp_path / "evil.py"
    code.write_text(f"open({str(ran)!r}, 'w')\n")
    tables = dict(load_preset("mnist-dense").tables)
    source = parse_source(f"{code}:build")
    tables["model"] = {"source": source.text, "content": content_key(source)}
    key = recorded(tables, "mnist-dense")
    runs = known_runs()
    requests: list[Callable[[str], RunRequest]]
    requests = [runs.to_repeat, runs.to_resume, runs.to_evaluate]
    for request in requests:
        with pytest.raises(Untrusted) as refused:
            runs.begin(request(key))
        assert refused.value.question.startswith(f"the record runs {code}:build")
    assert not ran.exists()
    refused.value.allow()
    with pytest.raises(Refused, match="has no function build"):
        runs.begin(runs.to_resume(key))
    assert ran.exists()
