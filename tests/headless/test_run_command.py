"""`ipu-workbench run` as a process: bytes, exit codes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.headless.conftest import Start

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "workbench"]
SMALL = ("--set", "data.train_samples=640", "--set", "data.test_samples=64")


def _environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "IPU_WORKBENCH_HOME": str(home),
        "TF_NUM_INTRAOP_THREADS": "1",
    }


def test_json_events_of_a_whole_run(tmp_path: Path) -> None:
    process = subprocess.run(
        [*COMMAND, "run", "mnist-cpu", *SMALL, "--set", "train.epochs=1", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        env=_environment(tmp_path),
        check=False,
    )
    assert process.returncode == 0
    assert process.stderr == ""
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in process.stdout.splitlines()
    ]
    by_event = {row["event"]: row for row in rows}
    assert rows[0]["event"] == "run_started"
    assert {"run_id", "preset", "spec"} <= rows[0].keys()
    assert {"seconds", "ipu_compile_s"} <= by_event["compiled"].keys()
    assert by_event["progress"].keys() >= {
        "epoch",
        "step",
        "steps",
        "loss",
        "accuracy",
        "host_step_ms",
        "ipu_step_us",
    }
    assert by_event["progress"]["step"] == by_event["progress"]["steps"] == 10
    assert {"loss", "accuracy", "seconds"} <= by_event["epoch_ended"].keys()
    assert {"loss", "accuracy"} <= by_event["evaluated"].keys()
    assert rows[-1]["event"] == "run_ended"
    assert rows[-1]["status"] == "finished"


def test_an_interrupted_run_keeps_its_record_and_exits_with_130(
    start: Start, tmp_path: Path
) -> None:
    process = start("run", "mnist-cpu", "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "progress":
            process.send_signal(signal.SIGINT)
            break
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(rest.splitlines()[-1])["status"] == "stopped"
    assert said == "stopping; once more leaves at once\n"
    (record,) = (tmp_path / "runs").glob("[0-9]*")
    assert json.loads((record / "run.json").read_text())["status"] == "stopped"


@pytest.mark.parametrize(
    ("preset", "change", "code", "says"),
    [
        (
            "mnist-ipu-pipelined",
            "execution.gradient_accumulation=6",
            2,
            "multiple of 4",
        ),
        ("mnist-dense", "model.layers[2].units=3000000", 3, "IPU 0 does not fit"),
    ],
)
def test_what_the_device_refuses_starts_no_run(
    preset: str, change: str, code: int, says: str, tmp_path: Path
) -> None:
    process = subprocess.run(
        [*COMMAND, "run", preset, "--set", change],
        capture_output=True,
        text=True,
        timeout=120,
        env=_environment(tmp_path),
        check=False,
    )
    assert process.returncode == code
    assert says in process.stderr
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "runs").exists()
