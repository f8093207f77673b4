"""The example scripts, run as a user would run them, on a few samples."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[3] / "examples"


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ipu_runtime", str(EXAMPLES / script), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize(
    "script",
    [
        "cifar10_ipu_strategy.py",
        "cifar10_ipu_estimator.py",
        "cifar10_estimator_replica.py",
        "cifar10_pipeline_estimator.py",
    ],
)
def test_cifar10_examples_train_and_evaluate(script: str) -> None:
    options = ("--samples", "64", "--batch-size", "8", "--epochs", "1")
    done = _run(script, *options)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Test accuracy: 0\.\d{4}$", done.stdout, re.MULTILINE)


def test_the_cnn_example_evaluates_its_own_checkpoint(tmp_path: Path) -> None:
    options = ("--samples", "32", "--batch-size", "16", "--model-dir", str(tmp_path))
    loop = ("--batches-per-step", "2", "--training-steps", "4")
    trained = _run("ipu_estimator_cnn.py", *options, *loop, "--learning-rate", "0.001")
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "model.ckpt-4.index").exists()
    tested = _run("ipu_estimator_cnn.py", *options, "--test-only")
    assert tested.returncode == 0, tested.stderr
    assert tested.stdout.splitlines()[-2:] == trained.stdout.splitlines()[-2:]
    refused = _run("ipu_estimator_cnn.py", "--test-only")
    assert refused.returncode == 2
    assert "--test-only needs --model-dir" in refused.stderr
