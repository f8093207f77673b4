"""Every test works in a home directory of its own, with the emulator installed.

What `install` teaches Keras cannot be taken back, and the tests of scripts need it. So
it is done before any test is imported: a file finds the same Keras alone as among all
others. That the program itself does without is seen in tests/headless, which starts it.
"""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import ipu_runtime

ipu_runtime.install()


def pytest_collection_finish() -> None:
    """Take what was imported out of every later collection of garbage.

    An app collects whenever it starts and ends: with TensorFlow and all tests in
    memory that is more than half of the time of its tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep records, presets and settings in a directory of the test."""
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
