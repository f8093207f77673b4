"""The app in a real terminal: start, keys, a run, quit."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pexpect
import pytest

from workbench.core.overrides import apply_overrides
from workbench.core.preset_store import load_preset, save_preset

pytestmark = pytest.mark.slow

_ESCAPE = re.compile(r"\x1b(\[[0-9;?<>=:]*[a-zA-Z]|\][^\x07]*\x07|[()][AB0]|[=>78])")


@pytest.fixture
def small_preset(home: Path) -> str:
    """Leave a preset of the user that trains in a moment, and return its name."""
    tables, _ = apply_overrides(
        load_preset("mnist-dense").tables,
        [
            "data.train_samples=256",
            "data.test_samples=64",
            "train.epochs=1",
            "train.steps_per_epoch=8",
            "execution.steps_per_execution=8",
        ],
    )
    save_preset("aaa-tiny", tables)
    return "aaa-tiny"


def test_start_run_quit_leaves_a_clean_terminal_without_native_output(
    small_preset: str, home: Path
) -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "workbench"],
        # TensorFlow says as much as it can, and still nothing of it may be seen.
        env={**os.environ, "TERM": "xterm-256color", "TF_CPP_MIN_LOG_LEVEL": "0"},
        dimensions=(40, 120),
        encoding="utf-8",
        timeout=120,
    )
    seen = io.StringIO()
    child.logfile_read = seen
    child.expect("where a step")
    child.send("/")
    child.expect("esc clears")
    child.send(small_preset)
    child.expect("no run contains it")
    child.send("\r\x12")
    child.expect("loading TensorFlow")
    child.expect("finished")
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    screen, left, after = seen.getvalue().rpartition("\x1b[?1049l")
    assert left, "the alternate screen was not left"
    assert "\x1b[?25h" in seen.getvalue(), "the cursor was not shown again"
    assert _ESCAPE.sub("", after).strip() == ""
    shown = _ESCAPE.sub("", screen)
    assert "cpu_feature_guard" not in shown
    assert "cuda" not in shown.lower()
    native = (home / "app.log").read_text(encoding="utf-8")
    assert "cpu_feature_guard" in native
