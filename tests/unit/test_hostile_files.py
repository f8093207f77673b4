"""Hostile files that once broke something, one test each."""

from __future__ import annotations

import ast
import json
import math
import os
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu_runtime.plan.hardware as hardware
from ipu_runtime.plan.config.toml_reading import TomlError, read_toml
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.quantities import duration
from ipu_runtime.reports.plain_text import is_plain, plain_line, plain_text
from ipu_runtime.reports.program_report import program_page
from workbench.data.dataset import load_prepared
from workbench.data.dataset_facts import DatasetError, dataset_facts
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import PresetError, load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment, plan_request
from workbench.runs.event_json import event_from_json, to_line
from workbench.runs.run_checkpoint import load
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run
from workbench.script_export import ScriptError, export_script
from workbench.store_json import RecordError, read_lines
from workbench.sweeps.sweep_grid import Axis
from workbench.sweeps.sweep_record import SweepDefinition, SweepRecord
from workbench.views.run import report_page


def _tables() -> dict[str, Any]:
    return dict(json.loads(json.dumps(load_preset("mnist-dense").tables)))


def test_control_characters_become_visible_signs() -> None:
    assert plain_text("a\x1b[2J\x7f\x9b\u202eb\n\tc\ud800") == "a␛[2J␡��b\n\tc�"
    assert plain_line("a\nb\r\nc\x00") == "a b c␀"
    assert is_plain("é [b] <b>\n\t")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * 5000, "nests too deeply"),
        ("a = " + "9" * 5000, "Exceeds the limit"),
        ("a = 0x" + "f" * 5000, "does not fit 64 bits"),
        ("a = 9223372036854775808", "does not fit 64 bits"),
        ("a =", "Invalid value"),
    ],
)
def test_toml_that_python_chokes_on(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(TomlError, match=reason):
        read_toml(text)
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(PresetError, match="is not valid TOML"):
        load_preset(str(tmp_path / "x.toml"))


def test_the_home_of_nobody() -> None:
    with pytest.raises(PresetError, match="no such file"):
        load_preset("~nobody-of-that-name/x.toml")
    with pytest.raises(DatasetError, match="neither a known data set nor a file"):
        dataset_facts("~nobody-of-that-name/x.npz")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("title", "a\x1b[2Jb", "holds a control character"),
        ("title", "two\nlines", "must be one line"),
        ("group", "a\u202eb", "holds a control character"),
    ],
)
def test_texts_that_command_a_terminal(path: str, value: str, problem: str) -> None:
    tables = _tables()
    tables["experiment"][path] = value
    spec, problems = validate(tables)
    assert spec is None
    assert [(p.where, p.problem) for p in problems] == [(f"experiment.{path}", problem)]


def test_layer_names_that_command_a_terminal() -> None:
    tables = _tables()
    tables["model"]["layers"][1]["name"] = "a\x1b[2J"
    spec, problems = validate(tables)
    assert spec is None
    assert "control character" in problems[0].problem


def test_a_layer_cannot_ask_keras_for_an_object() -> None:
    tables = _tables()
    tables["model"]["layers"][-1]["kernel_initializer"] = {
        "module": "builtins",
        "class_name": "eval",
        "config": {},
    }
    spec, problems = validate(tables)
    assert spec is None
    assert problems[0].where.endswith(".kernel_initializer")
    assert "must be a text, a number" in problems[0].problem


def test_json_lines_have_no_control_character_at_all() -> None:
    assert to_line({"a": "\x7f\x1b"}) == '{"a":"\\u007f\\u001b"}\n'


def test_lines_that_nest_too_deeply_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text("[" * 100_000 + '\n{"a": 1}\n')
    assert list(read_lines(path)) == [{"a": 1}]


@pytest.mark.parametrize("value", ["1", None, True, [1], {}])
def test_events_of_other_types_are_none_that_we_know(value: object) -> None:
    row = {"event": "progress", "epoch": value, "step": 1, "steps": 2, "loss": 0.5}
    row |= {"accuracy": None, "host_step_ms": 1, "ipu_step_us": 2.0}
    assert event_from_json(row) is None
    assert event_from_json({**row, "epoch": 1}) is not None
    assert event_from_json({**row, "epoch": 1, "loss": 10**400}) is not None


def _run(description: dict[str, Any], tables: dict[str, Any] | None = None) -> Any:
    record = RunRecord.create(tables or _tables(), "mnist-dense")
    record.close()
    path = record.directory / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **description}))
    return open_run(record.run_id)


def test_a_description_of_other_types_is_read() -> None:
    wrong: dict[str, Any] = {"pid": "x", "preset": [1], "message": {}, "ended": 3}
    run = _run({**wrong, "status": ["running"], "spec": 1, "summary": "s"})
    assert (run.pid, run.preset, run.message, run.ended) == (0, "", "", None)
    assert (run.status.value, run.tables, run.summary) == ("failed", {}, {})


def test_sections_that_are_no_tables_are_left_out() -> None:
    run = _run({"spec": {"experiment": [1], "train": {"epochs": 2}}})
    assert run.tables == {"train": {"epochs": 2}}


def test_times_that_are_no_numbers_are_shown() -> None:
    assert [duration(value) for value in (math.inf, math.nan)] == ["inf s", "nan s"]


def test_a_resumption_without_a_number_keeps_nothing_twice() -> None:
    run = _run({})
    (run.directory / "metrics.jsonl").write_text(
        '{"event": "resumed", "first_epoch": "x"}\n'
    )
    assert run.events() == []


def test_points_of_another_sweep_count_as_not_done() -> None:
    axes = (Axis("data.batch_size", ("16", "32")),)
    definition = SweepDefinition("mnist-dense", _tables(), axes, trained=False)
    record = SweepRecord.create(definition, "s")
    row = {"index": 0, "metrics": {"ipu_step_us": "x"}, "problem": "", "run_id": ""}
    rows = [{**row, "values": {}}, {**row, "values": {"data.batch_size": "16"}}]
    lines = [json.dumps({**item, "stages": []}) for item in rows]
    (record.directory / "points.jsonl").write_text("\n".join(lines))
    (result,) = record.results()
    record.close()
    assert result.metrics == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[ipus.gc200]\ntiles = 0", "ipus.gc200.tiles: must be a whole number from 1"),
        ("[ipus.gc200]\nclock_hz = nan", "clock_hz: must be a number"),
        ("[ipus.gc200]\ntitle = 3", "title: must be a text"),
        ("[ipus.x]\nlike = {}", "ipus.x.like: there is no {}"),
        ("[systems.x]\nipu = {}", "systems.x.ipu: {} is not one of"),
        ("[constants.pair_gb_s]\nvalue = 0", "pair_gb_s.value: must be a number"),
    ],
)
def test_hardware_that_cannot_be(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "hardware.toml"
    path.write_text(text)
    with pytest.raises(hardware.HardwareFileError, match=reason):
        hardware.load_table(str(path))


def _data_file(path: Path, **changes: Any) -> str:
    rng = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        "x_train": rng.random((64, 28, 28)),
        "y_train": np.arange(64) % 10,
        "x_test": rng.random((32, 28, 28)),
        "y_test": np.arange(32) % 10,
    }
    np.savez(path, allow_pickle=True, **(arrays | changes))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"x_train": np.full((64, 28, 28), np.nan)}, "x_train holds values that are"),
        ({"x_train": np.full((64, 28, 28), 1e300)}, "too large for single precision"),
        ({"y_test": np.array([b"a"] * 32)}, r"y_test holds \|S1 values"),
        ({"y_test": np.full(32, -1)}, "labels go from -1 to 9"),
    ],
)
def test_data_that_cannot_be_trained_with(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    name = _data_file(tmp_path / "own.npz", **changes)
    spec = load_experiment("mnist-dense", [f"data.dataset={name}"]).spec
    assert spec is not None
    with pytest.raises(DatasetError, match=reason):
        load_prepared(spec)


def test_data_that_would_fill_the_memory_are_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = _data_file(tmp_path / "own.npz")
    monkeypatch.setattr("workbench.data.dataset_facts.memory_bytes", lambda: 100_000)
    with pytest.raises(DatasetError, match="more than this machine's memory"):
        dataset_facts(name)


def test_data_that_are_no_file_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    os.mkfifo(tmp_path / "pipe.csv")
    for name in (*map(str, tmp_path.iterdir()), "/dev/zero"):
        with pytest.raises(DatasetError, match="is not a file"):
            dataset_facts(name)


def test_a_checkpoint_of_a_negative_epoch_is_refused(tmp_path: Path) -> None:
    about = {"epoch": -1, "weights": 0, "optimizer": 0, "extra": {}, "metrics": []}
    path = tmp_path / "epoch-000001.npz"
    np.savez(path, about=np.frombuffer(json.dumps(about).encode(), np.uint8))
    with pytest.raises(RecordError, match="epoch -1"):
        load(path)


HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)> \"' &lt;"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object", "a") or any(
            name.startswith("on") for name, _ in attrs
        ):
            self.wrong.append(tag)


def test_reports_hold_hostile_texts_as_text() -> None:
    tables = _tables()
    tables["experiment"] |= {"title": HOSTILE, "group": HOSTILE, "teaches": HOSTILE}
    tables["model"]["layers"][2]["name"] = HOSTILE
    spec, problems = validate(tables)
    assert spec is not None, problems
    run = _run({"preset": HOSTILE, "message": HOSTILE, "created": HOSTILE}, tables)
    plan = plan_experiment(spec)
    for page in (report_page(run), program_page(HOSTILE, plan, HOSTILE, {})):
        tags = _Tags()
        tags.feed(page)
        assert tags.wrong == []
        assert "alert(1)" in page


@pytest.mark.parametrize("preset", ["mnist-dense", "cifar10-ipu-pipeline-estimator"])
def test_exported_scripts_hold_hostile_texts_as_text(preset: str) -> None:
    hostile = '""")\nimport os\nos.system("true")\n("""\\'.replace("\n", " ")
    tables = json.loads(json.dumps(load_preset(preset).tables))
    harmless, _ = validate(tables)
    tables["experiment"] |= {"title": hostile, "name": hostile}
    spec, problems = validate(tables)
    assert harmless is not None
    assert spec is not None, problems
    assert _code(export_script(spec)) == _code(export_script(harmless))


def _code(script: str) -> str:
    """Return what a script does, without what its texts say."""
    tree = ast.parse(script)
    assert isinstance(tree.body[0], ast.Expr)
    del tree.body[0]
    return ast.dump(tree)


def test_counts_that_nobody_can_model_are_refused_at_once() -> None:
    loaded = load_experiment(
        "mnist-ipu-pipelined", ["execution.gradient_accumulation=1000000000000"]
    )
    assert loaded.spec is None
    assert "1 to 100000" in loaded.problems[0].hint
    spec = load_experiment("mnist-ipu-pipelined").spec
    assert spec is not None
    request = replace(plan_request(spec), gradient_accumulation=4 * 10**12)
    problems = make_plan(request).problems
    assert any("too many to model" in problem.problem for problem in problems)


def test_stages_that_do_not_suit_the_layers_make_no_script() -> None:
    changes = ["pipeline.stages=0,0,1"]
    spec = load_experiment("mnist-ipu-pipelined", changes).spec
    assert spec is not None
    with pytest.raises(ScriptError, match=r"pipeline\.stages"):
        export_script(spec)


@pytest.mark.parametrize("share", ["0", "1e-300"])
def test_tiles_for_streams_without_any_room(share: str) -> None:
    spec = load_experiment(
        "mnist-ipu-pipelined",
        [
            "ipu.io_tiles.num_io_tiles=32",
            f"ipu.io_tiles.available_memory_proportion={share}",
        ],
    ).spec
    assert spec is not None
    hints = [problem.hint for problem in plan_experiment(spec).problems]
    assert "a larger ipu.io_tiles.available_memory_proportion" in hints
