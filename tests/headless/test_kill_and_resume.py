"""A run that is killed, as often as one likes, ends as if it never had been.

`make kill-test` kills more often; IPU_WORKBENCH_KILLS says how often.
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

import numpy as np
import pytest

from workbench.core.checkpoint import latest, load
from workbench.core.events import EpochEnded, Evaluated, RunStatus
from workbench.core.run_store import StoredRun, list_runs, open_run

KILLS = int(os.environ.get("IPU_WORKBENCH_KILLS", "1"))
APIS = os.environ.get("IPU_WORKBENCH_KILL_APIS", "ipu_strategy").split(",")
SEED = int(os.environ.get("IPU_WORKBENCH_KILL_SEED", "1"))
EPOCHS = 12

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

pytestmark = pytest.mark.slow


def _start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "workbench", "run", "--json", *arguments]
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


def _outcome(run: StoredRun) -> list[Any]:
    ends = [e for e in run.events() if isinstance(e, EpochEnded | Evaluated)]
    return [(getattr(e, "epoch", "test"), e.loss, e.accuracy) for e in ends]


def _weights(run: StoredRun) -> list[bytes]:
    path = latest(run.directory / "checkpoints")
    assert path is not None
    state = load(path)
    assert state.epoch == EPOCHS
    return [np.asarray(a).tobytes() for a in (*state.weights, *state.optimizer)]


@pytest.mark.parametrize("api", APIS)
def test_a_killed_run_ends_like_one_that_was_left_alone(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    preset = tmp_path / "killed.toml"
    preset.write_text(PRESET.format(api=api, epochs=EPOCHS))
    reference_process = _start(tmp_path, str(preset))
    _finish(reference_process)
    (reference,) = list_runs()
    length = sum(e.seconds for e in reference.events() if isinstance(e, EpochEnded))

    moments = random.Random(SEED)
    run_id = ""
    epochs_before = 0
    for _ in range(KILLS):
        process = _start(tmp_path, *(["--resume", run_id] if run_id else [str(preset)]))
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
            _assert_equal(run, reference)
            run_id, epochs_before = "", 0
    if run_id:
        _finish(_start(tmp_path, "--resume", run_id))
        _assert_equal(open_run(run_id), reference)


def _assert_equal(run: StoredRun, reference: StoredRun) -> None:
    assert run.status is RunStatus.FINISHED
    assert run.run_id != reference.run_id
    assert _outcome(run) == _outcome(reference)
    assert _weights(run) == _weights(reference)
