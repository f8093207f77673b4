"""Scripts on the command line: captured, run with changes, and told what to write."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workbench.headless.main import main
from workbench.runs.run_store import open_run

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import numpy as np
from tensorflow import keras
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
x = np.linspace(0, 1, 64, dtype=np.float32).reshape(16, 4)
with ipu.ipu_strategy.IPUStrategy().scope():
    widths = (8, 8, 2)
    layers = [keras.layers.Dense(width) for width in widths]
    model = keras.Sequential([keras.Input((4,)), *layers])
    if "whole" not in sys.argv:
        model.set_pipeline_stage_assignment([0, 0, 1])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    model.compile("adam", "mse", steps_per_execution=4)
    print("training")
    model.fit(x, x[:, :2], batch_size=2, verbose=0)
    print("trained")
    model.evaluate(x, x[:, :2], batch_size=2, verbose=0)
"""
CONFIGURED, ASSIGNED, SET, COMPILED, FITTED = 9, 16, 17, 18, 20
"""Lines of calls in it."""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # A script is run in this very process, which must be as before afterwards.
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT, encoding="utf-8")
    return "script.py"


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("a command opens no app")


def _run(*arguments: str) -> int:
    return main(arguments, {}, _no_app)


def test_a_captured_script_is_planned_changed_run_and_patched(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("capture", script, "--output", "own.toml") == 0
    assert "trained" not in capsys.readouterr().err
    text = Path("own.toml").read_text(encoding="utf-8")
    assert "stages = [0, 0, 1]" in text
    assert "gradient_accumulation = 4" in text
    assert "batch_size = 2" in text
    assert _run("plan", "own.toml") == 0
    assert "2 IPUs · 1 replica · 2 stages Grouped" in capsys.readouterr().out

    text = text.replace("Grouped", "Interleaved").replace("[0, 0, 1]", "[0, 1, 1]")
    text = text.replace("steps_per_execution = 4", "steps_per_execution = 8")
    text += "\n[ipu.io_tiles]\nnum_io_tiles = 32\n"
    Path("own.toml").write_text(text, encoding="utf-8")
    assert _run("exec", "--with", "own.toml", script) == 0
    output = capsys.readouterr()
    assert "trained" in output.out
    assert (
        f"pipeline.schedule: Grouped -> Interleaved (fit, script.py:{FITTED})\n"
        in output.err
    )
    assert (
        "ipu.io_tiles.num_io_tiles: 0 -> 32 "
        f"(configure_ipu_system, script.py:{CONFIGURED})\n" in output.err
    )

    assert _run("runs", "show", "latest") == 0
    change = "pipeline.schedule: Grouped -> Interleaved"
    kept = f"overridden {change} (fit, script.py:{FITTED})"
    assert kept in capsys.readouterr().out.splitlines()

    assert _run("capture", script, "--diff", "own.toml") == 0
    assert sorted(capsys.readouterr().out.splitlines(), key=len) == [
        f"script.py:{COMPILED}: model.compile(steps_per_execution=8)",
        f"before script.py:{CONFIGURED}: config.io_tiles.num_io_tiles = 32",
        f"script.py:{ASSIGNED}: model.set_pipeline_stage_assignment([0, 1, 1])",
        f"script.py:{SET}: model.set_pipelining_options("
        "pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Interleaved)",
    ]


def test_what_a_capture_cannot_say_is_said(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCRIPT.replace('"adam", "mse"', 'keras.optimizers.Lion(), "mae"')
    Path(script).write_text(text, encoding="utf-8")
    assert _run("capture", script, "--output", "own.toml") == 0
    said, written = capsys.readouterr().err, Path("own.toml").read_text("utf-8")
    assert "warning: train.optimizer: lion is planned as adam\n" in said
    assert "# train.optimizer: lion is planned as adam\n" in written
    assert "# train.loss: mae is planned as mse\n" in written


def test_a_capture_has_the_loss_of_logits(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loss = "keras.losses.BinaryCrossentropy(from_logits=True)"
    text = SCRIPT.replace('"adam", "mse"', f'"adam", {loss}')
    Path(script).write_text(text, encoding="utf-8")
    assert _run("capture", script, "--output", "own.toml") == 0
    assert "planned as mse" not in capsys.readouterr().err
    written = Path("own.toml").read_text("utf-8")
    assert 'loss = "binary_crossentropy_from_logits"' in written


def test_programs_after_the_first_are_chosen_by_name(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("capture", script, "--output=own.toml", "--program", "evaluate") == 0
    made_up = "data.dataset: 16 made-up samples stand for the script's own data"
    assert made_up in capsys.readouterr().err
    assert f"# {made_up}" in Path("own.toml").read_text(encoding="utf-8")
    assert "test_only = true" in Path("own.toml").read_text(encoding="utf-8")
    assert _run("capture", script, "--output=own.toml", "--program", "run") == 2
    assert "valid: 1 to 2, fit-1, evaluate-1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--set", "train.learning_rate=0.1"], "train.learning_rate: no call"),
        (["--set", "ipu.io_tiles.num_io_tile=1"], "did you mean"),
        (["--stages", "first"], "no list of stages"),
        (["--stages", "balance:"], "no number of stages"),
    ],
)
def test_wrong_options_are_refused_before_the_script_begins(
    script: str, options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("exec", *options, script) == 2
    output = capsys.readouterr()
    assert reason in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    ("options", "arguments", "reason"),
    [
        (["--stages", "0,1"], [], "2 stages are given"),
        (["--stages", "0,0,2"], [], "must be in stage 0 or 1"),
        (["--schedule", "Interleaved"], ["whole"], "fit is no pipeline"),
        (["--set", "execution.gradient_accumulation=3"], [], "not divisible"),
        (["--set", "ipu.auto_select_ipus=1"], [], "requires a multiple of 2 IPUs"),
    ],
)
def test_what_does_not_suit_is_refused_before_anything_trains(
    script: str,
    options: list[str],
    arguments: list[str],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run("exec", *options, script, *arguments) == 2
    output = capsys.readouterr()
    assert output.out == "training\n"
    assert reason in output.err.splitlines()[-1]
    assert "Traceback" not in output.err
    assert reason in open_run("latest").message


def test_a_script_that_configures_nothing_takes_no_configuration(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCRIPT.replace("config.configure_ipu_system()", "")
    Path(script).write_text(text, encoding="utf-8")
    assert _run("exec", "--set", "ipu.io_tiles.num_io_tiles=32", script, "whole") == 2
    output = capsys.readouterr()
    assert "ipu.io_tiles.num_io_tiles: the script configures no device" in output.err
    assert output.out == "training\n"


def test_an_error_of_the_script_stays_its_own(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCRIPT.replace('print("training")', "1 / 0")
    Path(script).write_text(text, encoding="utf-8")
    assert _run("exec", "--set", "ipu.io_tiles.num_io_tiles=32", script) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_plan_of_an_evaluation_is_not_called_one_of_training(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCRIPT.replace("model.fit", "# model.fit")
    Path(script).write_text(text, encoding="utf-8")
    assert _run("exec", script, "whole") == 0
    assert _run("runs", "show", "latest") == 0
    assert "Plan of the first program\n" in capsys.readouterr().out


def test_stages_are_balanced_on_the_script_itself(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("exec", "--stages", "balance:2", script, "whole") == 0
    output = capsys.readouterr()
    assert "trained" in output.out
    assert "pipeline.stages: [] -> [0, " in output.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["script.py"], "--watch: needs a terminal for the app"),
        (["--no-record", "script.py"], "--watch: the app draws the record"),
        (["nowhere.py"], "nowhere.py: there is no such script"),
    ],
)
def test_what_cannot_be_watched_is_refused(
    script: str, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    assert _run("exec", "--watch", *options) == 2
    assert reason in capsys.readouterr().err
