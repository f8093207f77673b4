"""A sweep in several processes, and what may happen to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.headless.conftest import Start

pytestmark = pytest.mark.slow

_SWEEP = ("sweep", "mnist-dense", "--grid", "train.learning_rate=0.1,0.2")


def _begun(start: Start, home: Path, epochs: int) -> subprocess.Popen[str]:
    """Start a sweep, and return once both points train."""
    process = start(*_SWEEP, "--jobs", "2", "--json", "--set", f"train.epochs={epochs}")
    until = time.monotonic() + 120
    while len(_training(home)) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)  # Records are files: nobody tells when they grow.
    return process


def _training(home: Path) -> list[Path]:
    return [
        file
        for file in home.rglob("metrics.jsonl")
        if '"progress"' in file.read_text(encoding="utf-8")
    ]


def _statuses(home: Path) -> set[str]:
    return {
        json.loads(file.read_text(encoding="utf-8"))["status"]
        for file in home.rglob("run.json")
    }


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=pytest.mark.thorough),
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
    ],
)
def test_a_signal_to_the_group_ends_it_in_time(
    start: Start, tmp_path: Path, number: int
) -> None:
    process = _begun(start, tmp_path, epochs=1000)
    told_at = time.monotonic()
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "resource_tracker" not in said
    assert time.monotonic() - told_at < 8
    assert _statuses(tmp_path) == {"stopped"}


@pytest.mark.thorough
def test_points_whose_sweep_is_killed_stop_and_go_on_later(
    start: Start, tmp_path: Path
) -> None:
    process = _begun(start, tmp_path, epochs=1000)
    process.kill()
    # Its output ends with the last process that could write there.
    process.communicate(timeout=30)
    assert _statuses(tmp_path) == {"stopped"}
    before = {file.parent for file in tmp_path.rglob("run.json")}
    (sweep,) = (tmp_path / "sweeps").iterdir()
    again = start("sweep", "--resume", sweep.name, "--jobs", "2", "--json")
    until = time.monotonic() + 120
    while _statuses(tmp_path) != {"running"}:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert before == {file.parent for file in tmp_path.rglob("run.json")}
    again.terminate()
