"""A sweep on a Ray cluster of two nodes, and what may happen to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.cluster.local_ray import ray_here
from workbench.runs.events import RunStatus
from workbench.runs.run_store import list_runs

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

_MODEL = """
import keras

def small():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, "softmax")])
"""
_CLUSTER = """
import sys
from ray.cluster_utils import Cluster

room = {"num_cpus": 1, "memory": 2**31, "object_store_memory": 100 * 2**20}
cluster = Cluster(initialize_head=True, head_node_args={**room, "include_dashboard": 0})
second = cluster.add_node(**room)
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(second, allow_graceful=False)
sys.stdin.readline()
cluster.shutdown()
"""


class _Cluster:
    """Two nodes, one of which can be lost."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self.address = process.stdout.readline().strip()
        self._commands = process.stdin

    def lose_a_node(self) -> None:
        self._commands.write("\n")
        self._commands.flush()


@pytest.fixture(scope="module")
def cluster() -> Iterator[_Cluster]:
    """Start Ray once for the file; its token is of this test alone."""
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(32).hex()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with subprocess.Popen(
            [sys.executable, "-c", _CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            started = _Cluster(process)
            patch.setenv("RAY_ADDRESS", started.address)
            yield started
            process.communicate("\n\n")


def _begun(home: Path, times: int, *arguments: str) -> subprocess.Popen[str]:
    """Start a sweep, and return once both points train, begun so many times."""
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "sweep", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    while sum(_trains(file, times) for file in home.rglob("metrics.jsonl")) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)  # Records are files: nobody tells when they grow.
    return process


def _trains(file: Path, times: int) -> bool:
    parts = file.read_text(encoding="utf-8").split('"resumed"')
    return len(parts) >= times and '"progress"' in parts[-1]


def test_a_sweep_is_stopped_goes_on_and_outlives_a_node(
    cluster: _Cluster, home: Path, tmp_path: Path
) -> None:
    model = tmp_path / "own.py"
    model.write_text(_MODEL, encoding="utf-8")
    process = _begun(
        home,
        1,
        f"{model}:small",
        *("--grid", "train.learning_rate=0.1,0.2", "--on", "auto", "--group", "lost"),
        *("--set", "train.epochs=60", "--set", "execution.api=cpu"),
    )
    told_at = time.monotonic()
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - told_at < 10
    assert {run.status for run in list_runs("lost")} == {RunStatus.STOPPED}

    process = _begun(home, 2, "--resume", "lost", "--on", "auto")
    cluster.lose_a_node()
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors

    assert all(line[:1] == "{" for line in output.splitlines()), output
    rows = [json.loads(line) for line in output.splitlines()]
    points = [row for row in rows if row["event"] == "point"]
    assert sorted(point["index"] for point in points) == [0, 1]
    assert [point["problem"] for point in points] == ["", ""]
    runs = list_runs("lost")
    assert [run.status for run in runs] == [RunStatus.FINISHED] * 2
    assert [len(run.series().epochs["loss"].ys) for run in runs] == [60, 60]
    # One of them was stopped, and its node was lost.
    assert any(_trains(run.directory / "metrics.jsonl", 3) for run in runs)


def _below(process: int) -> list[int]:
    """Return all that a process has started, and what these have."""
    every = [process]
    for pid in every:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            every += map(int, task.read_text().split())
    return every


def test_ray_of_one_command_keeps_its_files_to_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray lets all users write where its sockets and the code of its workers are."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", os.urandom(32).hex())
    before = _sockets()
    with ray_here():
        (socket,) = _sockets() - before
        assert any(path.stat().st_mode & 0o777 == 0o700 for path in socket.parents)
    assert not socket.parent.exists()


def _command_line(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return [""]  # It has ended meanwhile.


def _sockets() -> set[Path]:
    """Return where the machines listen that this process has started."""
    return {
        Path(text.partition("=")[2])
        for process in _below(os.getpid())
        for text in _command_line(process)
        if text.startswith("--raylet_socket_name=")
    }


def _ends_the_machine(process: int) -> None:
    """Kill what Ray calls a node, among what a process of ours has started."""
    for pid in _below(process):
        program = _command_line(pid)[0]
        if Path(program).name == "raylet":
            os.kill(pid, signal.SIGKILL)
            return
    raise AssertionError("no raylet")


def test_a_lost_cluster_loses_no_point(home: Path, tmp_path: Path) -> None:
    model = tmp_path / "own.py"
    model.write_text(_MODEL, encoding="utf-8")
    process = _begun(
        home,
        1,
        f"{model}:small",
        *("--grid", "train.learning_rate=0.1,0.2,0.3", "--jobs", "2", "--on", "ray"),
        *("--set", "train.epochs=60", "--set", "execution.api=cpu"),
        *("--group", "gone", "--wait", "2", "--trust"),
    )
    _ends_the_machine(process.pid)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert "the cluster has 0 machines with room" in errors
    assert "waiting 2 s for machines (--wait)" in errors
    assert "go on with: ipu-workbench sweep --resume gone" in errors
    ended = json.loads(output.splitlines()[-1])
    assert ended["done"] < 3
    assert ended["invalid"] == 0
    begun = {run.run_id for run in list_runs("gone")}

    resumed = subprocess.run(
        [sys.executable, "-m", "workbench", "sweep", "--resume", "gone", "--trust"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert "best 3 of 3 valid points" in resumed.stdout
    runs = list_runs("gone")
    assert [run.status for run in runs] == [RunStatus.FINISHED] * 3
    assert begun <= {run.run_id for run in runs}
