"""What `--on` takes, and what is said where there is no cluster."""

from __future__ import annotations

import importlib.util
import stat
from pathlib import Path
from typing import Any

import pytest

from workbench.cluster import ray_cluster
from workbench.cluster.memory_need import memory_need
from workbench.cluster.place import ClusterError, Place, parse_place
from workbench.cluster.ray_cluster import Node
from workbench.experiment.preset_store import load_preset
from workbench.headless.exit_codes import ExitCode
from workbench.headless.main import main
from workbench.sweeps.sweep_record import list_sweeps

_SWEEP = ("sweep", "mnist-dense", "--grid")


def _run(*arguments: str) -> int:
    return main(arguments, {}, lambda **_: 0)


@pytest.mark.parametrize("text", ["local", "ray", "auto", "ray://10.0.0.1:10001"])
def test_places(text: str) -> None:
    assert parse_place(text).text == text


@pytest.mark.parametrize("text", ["", "slurm", "ray://", "ray://host", "ray://a b:1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no place; valid: local, ray, auto or ray"):
        parse_place(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("cluster", "status", "--on", "ray://8.8.8.8:10001"),
        ("cluster", "status", "--on", "auto"),
        (*_SWEEP, "train.learning_rate=0.1", "--on", "ray://8.8.8.8:10001"),
    ],
)
def test_a_cluster_on_the_internet_is_refused(
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "8.8.8.8:6379")
    assert _run(*arguments) == ExitCode.USAGE
    said = capsys.readouterr().err.splitlines()[-1]
    assert "is a public address, and Ray encrypts nothing" in said
    assert "--allow-network" in said


def test_only_the_user_may_read_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "auth_token"
    token.write_text("0" * 64)
    token.chmod(0o644)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    monkeypatch.setattr(ray_cluster, "require_ray", _NoRay)
    with pytest.raises(ClusterError), ray_cluster.connected(Place("auto")):
        pass
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


class _NoRay:
    """Stands for Ray without a cluster: the real one looks for half a minute."""

    def init(self, **options: Any) -> None:
        raise ConnectionError("no cluster")


@pytest.mark.parametrize(
    ("arguments", "missing", "said"),
    [
        (
            ("cluster", "status"),
            "ray",
            "Ray is not installed: pip install 'ipu-workbench[cluster]'",
        ),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    arguments: tuple[str, ...],
    missing: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find = importlib.util.find_spec

    def find_others(name: str, *rest: Any) -> Any:
        return None if name == missing else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_others)
    assert _run(*arguments) == 2
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cluster", "status", "--on", "ray"), "--on: ray is no cluster"),
        (
            (*_SWEEP, "stages=2", "--plan-only", "--on", "ray"),
            "--on: is for points that are trained",
        ),
        (
            (*_SWEEP, "train.learning_rate=1,2,3", "--budget", "2"),
            "--budget: 2 epochs are less than one for each point; at least 3",
        ),
        (
            (*_SWEEP, "train.epochs=1,2", "--budget", "9"),
            "--budget: decides about train.epochs",
        ),
        (
            (*_SWEEP, "train.epochs=1,2", "--objective", "loss"),
            "--objective: has no budget",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments) == 2
    assert said in capsys.readouterr().err
    assert list_sweeps() == []


def test_a_process_needs_more_than_its_data() -> None:
    need = memory_need(load_preset("mnist-ipu").tables)
    assert 70_000 * 28 * 28 * 4 + 2**30 < need < 3 * 2**30


def test_a_machine_has_room_for_what_both_cpus_and_memory_allow() -> None:
    node = Node("id", "10.0.0.1", "one", "one", True, cpus=8, memory_bytes=10 * 2**30)
    assert node.places(1, 3 * 2**30) == 3
    assert node.places(4, 2**30) == 2
    assert node.places(16, 2**30) == 0
