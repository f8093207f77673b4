"""`runs`, `sweep`, `export` and `report` as a user calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.headless import main as command_line
from workbench.runs.events import (
    Compiled,
    EpochEnded,
    Evaluated,
    Progressed,
    RunStatus,
)
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs, open_run


def main(arguments: list[str]) -> int:
    """Run a command in this process."""
    return command_line.main(arguments, {}, lambda args: pytest.fail("opened the app"))


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def _make_run(preset: str, *changes: str, end: RunStatus | None) -> str:
    tables, _ = apply_overrides(load_preset(preset).tables, changes)
    spec, problems = validate(tables)
    assert spec is not None, problems
    record = RunRecord.create(spec_to_tables(spec), preset)
    record.append(Compiled("training", 2.0, 40.0, "graph executor: convolutions"))
    for epoch in (1, 2):
        for step in (50, 100):
            loss = 2.0 / (epoch + step / 100)
            done = Progressed(epoch, step, 100, loss, 0.5, 3.0, 222.0)
            record.append(replace(done, batch_size=spec.data.batch_size))
        ended = EpochEnded(epoch, 2.0 / epoch, 0.6, 3.0, 222.0, 1.5)
        record.append(replace(ended, batch_size=spec.data.batch_size))
    if end is None:
        record.close()
    else:
        record.append(Evaluated(0.5, 0.875))
        record.finish(end, "it <broke>" if end is RunStatus.FAILED else "")
    return record.run_id


def _json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_the_list_shows_how_every_run_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = _make_run("mnist-ipu", end=RunStatus.FINISHED)
    second = _make_run("mnist-ipu-pipelined", end=None)

    assert main(["runs", "list"]) == 0

    head, newest, oldest = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["run", "preset", "status", "epochs"]
    assert newest.split()[:4] == [second, "mnist-ipu-pipelined", "killed", "2/3"]
    assert oldest.split()[:7] == [
        first,
        "mnist-ipu",
        "finished",
        "2/3",
        "1",
        "0.6",
        "0.875",
    ]


@pytest.mark.parametrize("command", ["runs", "presets"])
def test_the_command_alone_lists(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_run("mnist-ipu", end=RunStatus.FINISHED)
    assert main([command]) == 0
    alone = capsys.readouterr().out
    assert main([command, "list"]) == 0
    assert alone == capsys.readouterr().out
    assert "mnist-ipu" in alone


def test_explain_goes_from_one_run_to_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = _make_run("mnist-ipu-pipelined", end=RunStatus.FINISHED)
    changes = ["execution.gradient_accumulation=16", "train.momentum=0.5"]
    second = _make_run("mnist-ipu-pipelined", *changes, end=RunStatus.FINISHED)

    assert main(["runs", "compare", first, second, "--explain"]) == 0
    text = capsys.readouterr().out
    assert main(["runs", "compare", first, second, "--explain", "--json"]) == 0
    comparison, explanation = _json_lines(capsys.readouterr().out)

    assert f"from {first} to {second}, one changed field at a time" in text
    assert "gradient_accumulation 8 to 16" in text
    assert "  train.momentum 0.9 to 0.5" in text
    assert comparison["event"] == "comparison"
    assert explanation["unit"] == "us per batch"
    (before, after) = explanation["steps"]
    assert after["us"] - before["us"] == pytest.approx(after["delta_us"])
    assert after["changes"] == [
        {"path": "execution.gradient_accumulation", "from": 8, "to": 16}
    ]


def test_without_runs_the_list_says_how_to_begin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["runs", "list"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "begin one with: ipu-workbench run PRESET" in captured.err


def test_show_tells_changes_epochs_and_the_way_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_id = _make_run("mnist-ipu", "train.learning_rate=0.5", end=None)

    assert main(["runs", "show", run_id]) == 0

    text = capsys.readouterr().out
    assert "Changed from the preset mnist-ipu" in text
    assert re.search(r"train\.learning_rate +0\.5 +0\.01\n", text)
    assert "training by graph executor: convolutions" in text
    assert "The loss fell from 1.333 to 0.5333" in text
    assert f"continue it with: ipu-workbench run --resume {run_id}" in text
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines() if "record" not in line) <= 100


def test_notes_and_tags_are_listed_shown_and_exported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = _make_run("mnist-ipu", end=RunStatus.FINISHED)
    second = _make_run("mnist-dense", end=None)
    assert main(["runs", "note", first, "the one\nfor the talk"]) == 0
    assert main(["runs", "tag", first, "talk", "best"]) == 0
    assert main(["runs", "tag", first, "talk", "--remove"]) == 0
    assert main(["runs", "tag", second, "other"]) == 0
    capsys.readouterr()

    assert main(["runs", "list", "--tag", "best"]) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert row.startswith(first)
    assert row.endswith("the one for the talk #best")
    assert main(["runs", "show", first]) == 0
    assert "notes the one for the talk #best" in capsys.readouterr().out
    assert main(["runs", "show", first, "--json"]) == 0
    (row,) = _json_lines(capsys.readouterr().out)
    assert row["notes"]["tags"] == ["best"]
    assert main(["runs", "tag", first, "no tag"]) == 2
    assert "'no tag' is no tag" in capsys.readouterr().err


def test_delete_asks_and_leaves_live_runs_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _make_run("mnist-ipu", end=RunStatus.FINISHED)
    live = RunRecord.create({"train": {"epochs": 2}}, "mnist-dense")
    assert main(["runs", "delete", first]) == 2
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "\n")
    assert main(["runs", "delete", first]) == 0
    assert open_run(first).run_id == first
    assert main(["runs", "delete", "--yes", first, live.run_id]) == 1
    assert f"run {live.run_id}: is running; stop it first" in capsys.readouterr().err
    live.close()
    assert [run.run_id for run in list_runs()] == [live.run_id]


def test_compare_prints_only_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    first = _make_run("mnist-ipu", end=RunStatus.FINISHED)
    second = _make_run("mnist-ipu", "data.batch_size=32", end=RunStatus.FINISHED)

    assert main(["runs", "compare", first, second]) == 0
    text = capsys.readouterr().out
    assert main(["runs", "compare", first, second, "--json"]) == 0
    (row,) = _json_lines(capsys.readouterr().out)

    assert "data.batch_size" in text
    assert "train.epochs" not in text
    rows = {line.strip().split("  ")[0]: line for line in text.splitlines()}
    # By hand: 64 and 32 samples in 222 us; batches of different sizes have no best.
    assert "288,288 *" in rows["samples/s, modelled"]
    assert "144,144" in rows["samples/s, modelled"]
    assert rows["per batch, modelled, us"].split()[-2:] == ["222", "222"]
    assert row["other_units"].keys() == {"ipu_us_per_batch", "host_ms_per_batch"}
    assert "loss by epoch" in text
    assert row["fields"] == [{"path": "data.batch_size", "values": [64, 32]}]
    assert row["metrics"]["loss_last"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "show", "../../etc"], "is not the id of a run"),
        (["runs", "show", "nothing"], "there is no run 'nothing'"),
        (["runs", "compare", "latest"], "cannot be compared to itself"),
        (["runs", "compare", *["latest"] * 3, "--explain"], "to itself"),
        (["runs", "export", "latest", "--format", "tensorboard"], "--output"),
        (["report", "nothing", "--html", "x"], "there is no run"),
        (["export", "nothing"], "there is no such preset or run"),
        (["export", "latest", "--set", "a=b"], "exported as it was"),
        (["sweep", "mnist-ipu"], "--grid: is missing"),
        (["sweep"], "PRESET: is missing"),
        (["sweep", "--resume", "none"], "there is no sweep"),
        (["sweep", "mnist-ipu", "--grid", "stages=2", "--by", "los"], "unknown metric"),
        (["sweep", "mnist-ipu", "--grid", "stages=2", "--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_arguments_are_one_message_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_run("mnist-ipu", end=RunStatus.FINISHED)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_sweep_prints_the_best_points_and_the_reasons_of_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid = ["--grid", "data.batch_size=16,32", "--grid", "stages=2,9"]
    assert main(["sweep", "mnist-ipu-pipelined", "--plan-only", *grid]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "best 2 of 2 valid points by samples_per_second, modelled"
    assert lines[2].split()[:2] == ["32", "2"]
    assert "2 points are not valid" in lines
    assert any("stages=9: stages: 7 layers can be cut" in line for line in lines)


def test_a_sweep_as_json_can_be_continued(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--plan-only", "--json", "--grid", "data.batch_size=1..5"]
    assert main(["sweep", "mnist-ipu", "--group", "five", *arguments]) == 0
    rows = _json_lines(capsys.readouterr().out)
    assert main(["sweep", "--resume", "five", "--json"]) == 0
    again = _json_lines(capsys.readouterr().out)

    kinds = [row["event"] for row in rows]
    assert kinds == ["sweep_started", *["point"] * 5, "sweep_ended"]
    assert rows[-1]["valid"] == 5
    assert rows[-1]["best"]["values"] == {"data.batch_size": "5"}
    assert [row["event"] for row in again] == ["sweep_started", "sweep_ended"]
    assert again[-1]["best"] == rows[-1]["best"]


def test_the_export_of_a_run_is_its_own_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = _make_run("mnist-ipu", "data.batch_size=8", end=RunStatus.FINISHED)
    script = tmp_path / "script.py"

    assert main(["export", run_id, "--script", str(script)]) == 0

    text = script.read_text()
    assert '"--batch-size", type=int, default=8' in text
    assert "from tensorflow.python import ipu\n" in text
    assert f"{script} written" in capsys.readouterr().err


def test_a_report_escapes_everything_and_needs_no_network(tmp_path: Path) -> None:
    changes = ['experiment.title="<script>alert(1)</script>"', "train.epochs=2"]
    run_id = _make_run("mnist-ipu-faster", *changes, end=RunStatus.FAILED)
    page = tmp_path / "report.html"

    assert main(["report", run_id, "--html", str(page)]) == 0

    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "it &lt;broke&gt;" in text
    assert "http" not in text.replace("http-equiv", "")
    for part in ("Curves", "<td>printed</td>", "Memory of a replica", "224 us"):
        assert part in text, part
    assert "<td>train.epochs</td><td>2</td>" in text


def test_a_report_that_cannot_be_written_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _make_run("mnist-ipu", end=RunStatus.FINISHED)
    assert main(["report", "latest", "--html", str(tmp_path / "no" / "x.html")]) == 1
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.slow
def test_runs_sweeps_and_reports_do_not_load_tensorflow(tmp_path: Path) -> None:
    run_id = _make_run("mnist-ipu-pipelined", end=RunStatus.FINISHED)
    page = str(tmp_path / "r.html")
    code = (
        "import sys\n"
        "from workbench.headless import main as line\n"
        "main = lambda arguments: line.main(arguments, {}, None)\n"
        f"main(['runs', 'show', {run_id!r}])\n"
        f"main(['report', {run_id!r}, '--html', {page!r}])\n"
        f"main(['export', {run_id!r}])\n"
        "main(['sweep', 'mnist-ipu', '--plan-only', '--grid', 'data.batch_size=8'])\n"
        "print({'tensorflow', 'keras', 'textual'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"
