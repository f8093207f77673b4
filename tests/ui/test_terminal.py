"""The app in a real terminal: start, keys, a run, quit."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

import pexpect
import pytest

from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset, save_preset

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
    child.expect("Where a step")
    child.send("/")
    child.expect("esc clears")
    child.send(small_preset)
    child.expect("no run contains")
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


def test_exec_watch_runs_the_script_in_the_app(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import sys; print('got', sys.argv[1:])")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "workbench", "exec", "--watch", "one.py", "--epochs", "2"],
        env={**os.environ, "TERM": "xterm-256color"},
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=60,
    )
    seen = io.StringIO()
    child.logfile_read = seen
    child.expect("finished without a program on the IPU")
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "got ['--epochs', '2']" in _ESCAPE.sub("", seen.getvalue())


def test_a_dumb_terminal_is_drawn_in_ascii() -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-m", "workbench"],
        env={**os.environ, "TERM": "dumb"},
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=60,
    )
    # It draws on and on and never comes to this if it is not sure of its size.
    child.expect("samples/s")
    shown = _ESCAPE.sub("", str(child.before))
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()
    assert "+- Presets" in shown
    assert shown.isascii()
