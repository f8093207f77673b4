"""Instances that train together come to the weights of one with all the replicas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ipu_runtime.popdist.launched_job import cluster_environments
from tests.runtime.popdist import training_cases
from tests.runtime.popdist.two_hosts import ADDRESSES, two_hosts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
TOLERANCE = 1e-6
"""Of the largest weight: sums over replicas are in another order."""


@pytest.fixture(scope="module")
def few(request: pytest.FixtureRequest) -> bool:
    """Whether a few cases will do."""
    return bool(request.config.getoption("quick"))


@pytest.fixture(scope="module")
def trained(few: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train all cases with two instances of one and of two replicas.

    Each is on a host of its own, started by hand; under `poprun` where there can be
    no such hosts.
    """
    folder = tmp_path_factory.mktemp("trained")
    with two_hosts() as hosts:
        if hosts:
            _train_on_hosts(hosts, str(folder), *["few"] * few)
        else:
            _train_under_poprun(str(folder), *["few"] * few)
    return folder


def _train_on_hosts(hosts: list[str], *arguments: str) -> None:
    cluster = cluster_environments([f"{address}:4000" for address in ADDRESSES])
    instances = [
        subprocess.Popen(
            (
                *("ip", "netns", "exec", host, sys.executable, "-m", "ipu_runtime"),
                *(training_cases.__file__, *arguments),
            ),
            env={
                **os.environ,
                **cluster[index],
                "PYTHONPATH": str(ROOT),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index, host in enumerate(hosts)
    ]
    try:
        for instance in instances:
            _, errors = instance.communicate(timeout=240)
            assert instance.returncode == 0, errors
    finally:
        for instance in instances:
            instance.kill()


def _train_under_poprun(*arguments: str) -> None:
    ran = subprocess.run(
        (
            *(sys.executable, "-m", "ipu_runtime.popdist.poprun"),
            *("--num-instances", "2", "--timeout", "240"),
            *("python", "-m", training_cases.__name__, *arguments),
        ),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("local_replicas", [1, 2])
def test_instances_train_as_replicas_do(
    local_replicas: int, few: bool, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in training_cases.PLACE:
        monkeypatch.setenv(name, "0" if name.endswith("OFFSET") else "1")
    cases = (training_cases.FEW if few else training_cases.CASES)[local_replicas]
    expected = training_cases.all_results(2 * local_replicas, cases)
    first, second = (
        dict(np.load(trained / f"{local_replicas}_{index}.npz")) for index in (0, 1)
    )
    assert first.keys() == second.keys() == expected.keys()
    # Two summands have one order only.
    tolerance = TOLERANCE if local_replicas > 1 else 0.0
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], name)
        if not name.startswith("loss"):
            np.testing.assert_allclose(
                values, expected[name], 0, tolerance * np.abs(values).max(), True, name
            )


def test_instances_are_on_two_hosts(trained: Path) -> None:
    with two_hosts() as hosts:
        if not hosts:
            pytest.skip("network namespaces need root and the program ip")
    first, second = ((trained / f"network_{i}.txt").read_text() for i in (0, 1))
    assert first != second


def test_a_lost_instance_is_named(trained: Path) -> None:
    message = (trained / "lost.txt").read_text()
    assert "Instance 0 of 2 has lost the connection to another one" in message


@pytest.mark.parametrize("index", [0, 1])
def test_values_go_between_hosts(index: int, trained: Path) -> None:
    values = dict(np.load(trained / f"host_{index}.npz"))
    assert values["sum"].tolist() == [3, 6]
    assert values["mean"].tolist() == [1.5, 3]
    assert values["gathered"].tolist() == [1, 2, 2, 4]
    assert values["second"].tolist() == [2, 4]
    assert values["truth"]


def test_what_instances_cannot_do_together_is_refused(trained: Path) -> None:
    told = (trained / "refused_1.txt").read_text().splitlines()
    for line, says in zip(
        told,
        (
            "iterations_per_loop > 1 (got 2) not supported with distribution",
            "(got 3) must be divisible by num_workers * num_replicas (2 * 1)",
            "The cluster has 3 workers, but this is one of 2",
            "no IPUMultiWorkerStrategyV1.run with several instances in sessions",
            "train_on_batch",
            "automatic loss scaling",
        ),
        strict=True,
    ):
        assert says in line
