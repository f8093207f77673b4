"""A run that is killed, as often as one likes, ends as if it never had been.

`make kill-test` kills more often and in every way to run an experiment;
IPU_WORKBENCH_KILLS says how often, IPU_WORKBENCH_KILL_APIS in which.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.run_outcome import assert_equal
from workbench.runs.events import EpochEnded, RunStatus
from workbench.runs.run_store import list_runs, open_run
from workbench.store_json import read_lines

KILLS = int(os.environ.get("IPU_WORKBENCH_KILLS", "1"))
APIS = os.environ.get("IPU_WORKBENCH_KILL_APIS", "ipu_strategy").split(",")
SEED = int(os.environ.get("IPU_WORKBENCH_KILL_SEED", "1"))
EPOCHS = 12
RUN = ("run", "--json")
SWEEP = ("sweep", "--json")

PRESET = """
[experiment]
title = "Killed and resumed"
seed = 7

[data]
dataset = "synthetic"
batch_size = 16
train_samples = 512
test_samples = 64
labels = "sparse"

[train]
optimizer = "adam"
learning_rate = 0.01
loss = "sparse_categorical_crossentropy"
epochs = {epochs}

[execution]
api = "{api}"
steps_per_execution = 8
gradient_accumulation = {accumulation}
checkpoint_every_s = 0.02
{pipeline}

[[model.layers]]
name = "input"
kind = "Input"
shape = [8]

[[model.layers]]
name = "dense"
kind = "Dense"
units = 32
activation = "relu"

[[model.layers]]
name = "dropout"
kind = "Dropout"
rate = 0.25

[[model.layers]]
name = "dense_1"
kind = "Dense"
units = 4
activation = "softmax"
"""

PIPELINE = """
[pipeline]
stages = [0, 1, 1]

[ipu]
auto_select_ipus = 2
"""

pytestmark = pytest.mark.slow


def _preset(api: str, epochs: int) -> str:
    pipelined = api == "ipu_pipeline_estimator"
    return PRESET.format(
        api=api,
        epochs=epochs,
        accumulation=1 if api == "cpu" else 4,
        pipeline=PIPELINE if pipelined else "",
    )


def _start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "workbench", *arguments]
    environment = {**os.environ, "IPU_WORKBENCH_HOME": str(home)}
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-2000:]


def _kill_after(process: subprocess.Popen[str], event: str, seconds: float) -> None:
    """Kill some time after an event, unless the process has ended by then."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == event:
            break
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("api", APIS)
def test_a_killed_run_ends_like_one_that_was_left_alone(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    preset = tmp_path / "killed.toml"
    preset.write_text(_preset(api, EPOCHS))
    reference_process = _start(tmp_path, *RUN, str(preset))
    _finish(reference_process)
    (reference,) = list_runs()
    length = sum(e.seconds for e in reference.events() if isinstance(e, EpochEnded))

    moments = random.Random(SEED)
    run_id = ""
    epochs_before = 0
    for _ in range(KILLS):
        words = ["--resume", run_id] if run_id else [str(preset)]
        process = _start(tmp_path, *RUN, *words)
        event = moments.choice(["run_started", "compiled", "epoch_ended"])
        _kill_after(process, event, moments.uniform(0.0, length))
        if not run_id:
            run_id = list_runs()[0].run_id
        run = open_run(run_id)
        done = [e.epoch for e in run.events() if isinstance(e, EpochEnded)]
        assert done == list(range(1, len(done) + 1))
        # At most the epoch whose checkpoint was being written is done again.
        assert len(done) >= epochs_before - 1
        epochs_before = len(done)
        assert run.status in (RunStatus.KILLED, RunStatus.FINISHED)
        if run.status is RunStatus.FINISHED:
            assert_equal(run, reference)
            run_id, epochs_before = "", 0
    if run_id:
        _finish(_start(tmp_path, *RUN, "--resume", run_id))
        assert_equal(open_run(run_id), reference)


@pytest.mark.skipif(KILLS < 2, reason="make kill-test")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_sweep_ends_like_one_that_was_left_alone(
    jobs: str, tmp_path: Path
) -> None:
    preset = tmp_path / "killed.toml"
    preset.write_text(_preset("cpu", 3))
    grid = ("--grid", "train.learning_rate=0.001,0.01,0.1")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _finish(_start(whole, *SWEEP, str(preset), *grid, "--group", "whole"))
    moments = random.Random(SEED)
    words: tuple[str, ...] = (str(preset), *grid, "--group", "killed")
    for _ in range(max(1, KILLS // 10)):
        process = _start(killed, *SWEEP, *words, "--jobs", jobs)
        _kill_after(process, "sweep_started", moments.uniform(0.0, 12.0))
        words = ("--resume", "killed")
    _finish(_start(killed, *SWEEP, "--resume", "killed"))
    assert _points(killed, "killed") == _points(whole, "whole")


def _points(home: Path, group: str) -> dict[str, Any]:
    """Return what every point of a sweep has come to, measured times left out."""
    rows = read_lines(home / "sweeps" / group / "points.jsonl")
    return {
        json.dumps(row["values"]): {
            name: value
            for name, value in row["metrics"].items()
            if "host" not in name and "seconds" not in name
        }
        for row in rows
    }
