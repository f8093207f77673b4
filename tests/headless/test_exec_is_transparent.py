"""A script under `exec` ends as it does under Python, whatever it does to its streams,
and what it prints costs no more memory than the log of its record may take."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from workbench.runs.run_store import open_run

pytestmark = pytest.mark.slow

SCRIPTS = {
    "closes its output": "sys.stdout.close(); sys.exit(3)",
    "closes its output and prints": "sys.stdout.close(); print('x')",
    "closes its errors": "sys.stderr.close(); raise KeyError('x')",
    "closes its errors and leaves with words": "sys.stderr.close(); sys.exit('words')",
    "has no output": "sys.stdout = None; print('x')",
    "has no errors": "sys.stderr = None; raise KeyError('x')",
    "has no errors and leaves with words": "sys.stderr = None; sys.exit('words')",
    "closes the descriptor": "os.close(1); sys.exit(4)",
    "closes the descriptor and flushes": "os.close(1); print('x', flush=True)",
    "closes the descriptor and prints": "os.close(1); print('x')",
    "closes both descriptors": "os.close(1); os.close(2); raise KeyError('x')",
    "has an output of its own": "sys.stdout = open('own', 'w'); print('x'); print(1/0)",
    "detaches its output": "sys.stdout.detach(); sys.exit(5)",
    "has a hook for errors": "sys.excepthook = lambda *_: print('hook'); print(1/0)",
    "has a broken hook": "sys.excepthook = lambda *_: 1/0; raise KeyError('x')",
}


def _run(
    directory: Path, *words: str, environment: Mapping[str, str]
) -> tuple[int, str, str]:
    directory.mkdir()
    done = subprocess.run(
        [sys.executable, *words, str(directory.parent / "script.py")],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, **environment},
        check=False,
    )
    last = done.stderr.splitlines()[-1:]
    return done.returncode, done.stdout, "".join(last)


@pytest.mark.parametrize("does", SCRIPTS)
def test_a_script_ends_as_under_python(does: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"import os, sys\n{SCRIPTS[does]}\n")
    home = {"IPU_WORKBENCH_HOME": str(tmp_path / "home")}
    expected = _run(tmp_path / "python", environment={})
    words = ("-m", "workbench", "exec")
    assert _run(tmp_path / "exec", *words, environment=home) == expected


@pytest.mark.parametrize(
    "prints",
    [
        "for _ in range(256): sys.stdout.write('x' * 2**20)",
        "for _ in range(16): sys.stdout.write(('y' * 63 + chr(10)) * 2**18)",
        "for _ in range(64): sys.stdout.write((chr(13) + 'z' * 63) * 2**14)",
    ],
    ids=["one line", "lines", "a line drawn again"],
)
def test_what_a_script_prints_costs_bounded_memory(
    prints: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.py"
    # Not from getrusage: its peak may be that of the process that started this one.
    peak = "open('status', 'w').write(open('/proc/self/status').read())"
    script.write_text(f"import sys\n{prints}\nprint()\n{peak}\n")
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-m", "workbench", "exec", str(script)]
    with open(os.devnull, "w") as nowhere:
        subprocess.run(command, stdout=nowhere, cwd=tmp_path, check=True, timeout=60)
    peak_kb = re.search(r"VmHWM:\s+(\d+)", (tmp_path / "status").read_text())
    assert peak_kb is not None
    assert int(peak_kb[1]) < 250_000
    log = (open_run("latest").directory / "run.log").read_text()
    assert len(log) < 20_001_000
