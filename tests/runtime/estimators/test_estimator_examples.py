"""The example scripts, run as the command that runs scripts does, on a few samples."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path

import pytest

from ipu_runtime.installing.script import run_script

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class Done:
    """How a script has ended, and what it has written."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs an example as `python -m ipu_runtime` does, but in this process."""
    # A script's own directory takes the first place.
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(sys, "argv", [])
    usual = spawn.get_preparation_data
    monkeypatch.setattr(spawn, "get_preparation_data", usual)

    def run(script: str, *arguments: str) -> Done:
        code = run_script(str(EXAMPLES / script), arguments)
        return Done(code, *capfd.readouterr())

    return run


@pytest.mark.parametrize(
    "script",
    [
        "cifar10_ipu_strategy.py",
        # Recorded scripts have these two.
        pytest.param("cifar10_ipu_estimator.py", marks=pytest.mark.thorough),
        pytest.param("cifar10_pipeline_estimator.py", marks=pytest.mark.thorough),
        "cifar10_estimator_replica.py",
    ],
)
def test_cifar10_examples_train_and_evaluate(script: str, run: Run) -> None:
    options = ("--samples", "64", "--batch-size", "8", "--epochs", "1")
    done = run(script, *options)
    assert done.code == 0, done.err
    assert re.search(r"^Test accuracy: 0\.\d{4}$", done.out, re.MULTILINE)


def test_the_cnn_example_evaluates_its_own_checkpoint(tmp_path: Path, run: Run) -> None:
    options = ("--samples", "32", "--batch-size", "16", "--model-dir", str(tmp_path))
    loop = ("--batches-per-step", "2", "--training-steps", "4")
    trained = run("ipu_estimator_cnn.py", *options, *loop, "--learning-rate", "0.001")
    assert trained.code == 0, trained.err
    assert (tmp_path / "model.ckpt-4.index").exists()
    tested = run("ipu_estimator_cnn.py", *options, "--test-only")
    assert tested.code == 0, tested.err
    assert tested.out.splitlines()[-2:] == trained.out.splitlines()[-2:]
    refused = run("ipu_estimator_cnn.py", "--test-only")
    assert refused.code == 2
    assert "--test-only needs --model-dir" in refused.err
