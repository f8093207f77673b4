"""Instances on two hosts: network namespaces with a cable between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.popdist import training_cases

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("host_case.py")
ADDRESSES = ("10.213.77.1", "10.213.77.2")


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Make two hosts that reach each other and nobody else."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the program ip")
    names = [f"ipu{os.getpid()}{side}" for side in "ab"]
    try:
        _ip("netns", "add", names[0])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    try:
        _ip("netns", "add", names[1])
        ends = [("cable", "netns", name) for name in names]
        _ip("link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(("ip", "netns", "del", name), capture_output=True)


def _start(host: str, index: int, folder: Path) -> subprocess.Popen[str]:
    cluster = {
        "cluster": {"worker": [f"{address}:4000" for address in ADDRESSES]},
        "task": {"type": "worker", "index": index},
    }
    return subprocess.Popen(
        (
            *("ip", "netns", "exec", host, sys.executable, "-m", "ipu_runtime"),
            *(str(SCRIPT), str(folder)),
        ),
        env={
            **os.environ,
            "TF_CONFIG": json.dumps(cluster),
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_hosts_train_together_without_poprun(
    hosts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = [_start(host, index, tmp_path) for index, host in enumerate(hosts)]
    try:
        for name in training_cases.PLACE:
            monkeypatch.setenv(name, "0" if name.endswith("OFFSET") else "1")
        expected = training_cases.all_results(2, ["single"])
        for instance in instances:
            _, errors = instance.communicate(timeout=100)
            assert instance.returncode == 0, errors
    finally:
        for instance in instances:
            instance.kill()
    for index in range(2):
        found = dict(np.load(tmp_path / f"{index}.npz"))
        assert found.keys() == expected.keys()
        for name in found.keys() - {"loss of single"}:
            np.testing.assert_array_equal(found[name], expected[name], name)
