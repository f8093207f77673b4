"""The tutorials' scripts run to their end, exactly as printed, on less data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ipu_runtime import datasets

sys.path.insert(0, str(Path(__file__).parent / "tutorials"))
from scripts import tutorial_scripts

pytestmark = pytest.mark.slow

SCRIPTS = tutorial_scripts()
RUN = (
    # CPU, IPU, faster, replicated and pipelined one after the other, as a notebook.
    "all_blocks_in_order",
    "pipelined_interleaved",
    "pipelined_sequential",
    "simple_mnist",
)
STARTER = """
import runpy, sys
for file in sys.argv[1:]:
    runpy.run_path(file, run_name="__main__")
    print("END OF SCRIPT", flush=True)
"""


def little_mnist(home: Path) -> None:
    """Write a Keras cache whose MNIST has 1024 and 512 images."""
    (home / "datasets").mkdir()
    packaged = Path(datasets.__file__).parent / "mnist.npz"
    with np.load(packaged) as arrays:
        sizes = {"train": 1024, "test": 512}
        little = {name: arrays[name][: sizes[name[2:]]] for name in arrays.files}
    np.savez(home / "datasets" / "mnist.npz", **little)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what each script printed; one process, as loading TensorFlow is slow."""
    home = tmp_path_factory.mktemp("keras")
    little_mnist(home)
    starter = home / "starter.py"
    starter.write_text(STARTER, encoding="utf-8")
    files = []
    for name in RUN:
        file = home / f"{name}.py"
        file.write_text(SCRIPTS[name], encoding="utf-8")
        files.append(str(file))
    result = subprocess.run(
        [sys.executable, "-m", "workbench", "exec", str(starter), *files],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "KERAS_HOME": str(home)},
    )
    assert result.returncode == 0, result.stderr
    return dict(zip(RUN, result.stdout.split("END OF SCRIPT"), strict=False))


def test_all_blocks_in_order_as_in_the_notebook(output: dict[str, str]) -> None:
    printed = output["all_blocks_in_order"]
    for variant in ("CPU", "IPU", "steps_per_execution", "replication", "pipelining"):
        assert f"running on {variant}" in printed or f"with {variant}" in printed
    # Of the blocks that train, two train and evaluate twice.
    assert printed.count("Evaluation") == 7
    assert printed.count("Epoch 3/3") == 7


@pytest.mark.parametrize("schedule", ["interleaved", "sequential"])
def test_pipelines_of_the_other_schedules(
    output: dict[str, str], schedule: str
) -> None:
    printed = output[f"pipelined_{schedule}"]
    assert printed.count("Epoch 3/3") == 1
    assert "8/8" in printed.rpartition("Evaluation")[2]


def test_the_sequential_example(output: dict[str, str]) -> None:
    assert "Epoch 4/4" in output["simple_mnist"]
    assert "2000/2000" in output["simple_mnist"]
