"""`ipu-workbench presets` as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FIVE_MISTAKES = """
[data]
batch_sise = 64
labels = "sparse"

[train]
epochs = "three"
learning_rate = -1
loss = "categorical_crossentropy"

[[model.layers]]
kind = "Input"
shape = [28, 28, 1]

[[model.layers]]
kind = "Flatten"

[[model.layers]]
kind = "Dense"
activation = "softmax"
units = 10
"""


def _call(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "IPU_WORKBENCH_HOME": str(home)},
        check=False,
    )


def test_list_prints_one_object_per_preset(tmp_path: Path) -> None:
    process = _call(tmp_path, "presets", "list", "--json")
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    assert process.returncode == 0
    assert process.stderr == ""
    assert len(rows) >= 12
    assert rows[0]["event"] == "preset"
    assert rows[4]["name"] == "mnist-ipu-pipelined"


def test_validate_reports_five_mistakes_and_exits_with_2(tmp_path: Path) -> None:
    file = tmp_path / "five.toml"
    file.write_text(FIVE_MISTAKES)
    process = _call(tmp_path, "presets", "validate", str(file))
    assert process.returncode == 2
    assert process.stdout == ""
    lines = process.stderr.splitlines()
    assert [line.removeprefix(f"{file}: ").split(":")[0] for line in lines[:-1]] == [
        "experiment.title",
        "data.batch_sise",
        "train.learning_rate",
        "train.epochs",
        "train.loss",
    ]
    assert lines[-1] == "1 of 1 not valid"


def test_validate_also_asks_the_device(tmp_path: Path) -> None:
    process = _call(tmp_path, "presets", "show", "mnist-ipu-pipelined", "--json")
    fields = [json.loads(line) for line in process.stdout.splitlines()]
    layers = next(row["layers"] for row in fields if row["event"] == "layers")
    file = tmp_path / "wrong.toml"
    lines = [
        '[experiment]\ntitle = "wrong accumulation"',
        "[ipu]\nauto_select_ipus = 2",
    ]
    lines.append("[execution]\ngradient_accumulation = 6\nsteps_per_execution = 6")
    lines.append("[pipeline]\nstages = [0, 0, 0, 1, 1, 1, 1]")
    lines.append("[data]\nbatch_size = 64\ntrain_samples = 384")
    for layer in layers:
        settings = "\n".join(f"{key} = {json.dumps(layer[key])}" for key in layer)
        lines.append(f"[[model.layers]]\n{settings}")
    file.write_text("\n".join(lines))
    process = _call(tmp_path, "presets", "validate", str(file))
    assert process.returncode == 2
    assert "multiple of 4" in process.stderr
    assert "Traceback" not in process.stderr


def test_show_prints_each_value_with_its_source(tmp_path: Path) -> None:
    process = _call(
        tmp_path, "presets", "show", "mnist-ipu", "--set", "train.epochs=1", "--json"
    )
    rows = {
        row["field"]: row for row in map(json.loads, process.stdout.splitlines()[:-1])
    }
    assert rows["train.epochs"]["value"] == 1
    assert rows["train.epochs"]["source"] == "--set"
    assert rows["data.batch_size"]["source"] == "mnist-ipu.toml"
    assert rows["ipu.io_tiles.num_io_tiles"]["source"] == "default"


@pytest.mark.parametrize("command", [["presets", "validate"], ["plan"], ["export"]])
def test_layers_of_no_preset_are_named_with_file_and_field(
    command: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[experiment]\ntitle = "own"\n[model]\nlayers_of = "mnist-cp"\n')
    process = _call(tmp_path, *command, str(file))
    assert process.returncode == 2
    assert process.stderr.splitlines()[0] == (
        f"{file}: model.layers_of: there is no preset 'mnist-cp'; "
        "did you mean mnist-cpu?"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("presets", "show", "mnist-ip"), "did you mean mnist-ipu?"),
        (("run", "mnist-cpu", "--set", "train.epoch=1"), "did you mean train.epochs?"),
        (("run", "nowhere.toml"), "there is no such file"),
        (("run",), "PRESET|FILE: is missing"),
        (("run", "--resume", "nothing"), "there is no run"),
        (("presets", "validate", "."), "no such"),
        (("no-such-command",), "invalid choice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_usage_errors_exit_with_2_and_one_message(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    process = _call(tmp_path, *arguments)
    assert process.returncode == 2
    assert says in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
