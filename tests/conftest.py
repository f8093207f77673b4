"""Every test works in a home directory of its own, with the emulator installed.

What `install` teaches Keras cannot be taken back, and the tests of scripts need it. So
it is done before any test is imported: a file finds the same Keras alone as among all
others. That the program itself does without is seen in tests/headless, which starts it.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import ipu_runtime

ipu_runtime.install()
# Commands inherit it, and shells start background jobs with ctrl+c ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test` take less time than `make thorough`."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what frameworks do in every test besides: TensorFlow optimizes "
        "no graphs, Textual draws only frames that a test looks at",
    )


def _spare_what_lives() -> None:
    """Take all objects of this moment out of later collections of garbage.

    TensorFlow's and Keras' own would be looked through again and again: in a worker
    that has run many models that is more than the tests themselves.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    """Spare what was imported."""
    _spare_what_lives()


@pytest.fixture(autouse=True, scope="module")
def spared() -> Iterator[None]:
    """Spare what the tests of a file leave behind in the frameworks."""
    yield
    _spare_what_lives()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep records, presets and settings in a directory of the test."""
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    # What may run is a fact of the user, which no such directory can say.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "home"
