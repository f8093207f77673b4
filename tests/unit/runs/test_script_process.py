"""Scripts of all kinds, run in a process of their own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import list_runs
from workbench.scripts import script_process
from workbench.scripts.script_command import ScriptCommand, recorded_command
from workbench.scripts.script_process import ScriptProcess

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text: str, stop_when: str = "") -> list[Event]:
    """Run a script; stop it once its log has a word."""
    Path("script.py").write_text(text, encoding="utf-8")
    control, events, over = RunControl(), [], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            logs = [item.directory / "run.log" for item in list_runs()]
            if any(stop_when in log.read_text() for log in logs):
                control.stop.set()

    watcher = threading.Thread(target=watch)
    if stop_when:
        watcher.start()
    try:
        ScriptProcess(ScriptCommand("script.py", ("2",)))(control, events.append)
    finally:
        over.set()
        if stop_when:
            watcher.join()
    return events


def test_a_script_that_never_trains_is_recorded_and_finishes() -> None:
    begin, end = run("import sys; print('got', sys.argv[1])")
    stored = list_runs()[0]
    assert isinstance(begin, RunStarted)
    assert begin.run_id == stored.run_id
    assert isinstance(end, RunEnded)
    assert end.status is RunStatus.FINISHED
    assert (stored.directory / "run.log").read_text() == "got 2\n"
    again = recorded_command(stored.script)
    assert again == ScriptCommand(
        str(Path("script.py").absolute()), ("2",), str(Path.cwd())
    )


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("raise ValueError('no data')", RunStatus.FAILED, "ValueError: no data"),
        ("import getpass; getpass.getpass()", RunStatus.FAILED, "EOFError: "),
        (
            "import os; os.write(2, b'check failed\\n'); os.abort()",
            RunStatus.KILLED,
            "the script was ended by SIGABRT; it printed last: check failed",
        ),
    ],
    ids=["fails", "asks-the-terminal", "aborts"],
)
def test_how_a_script_ends_is_told(text: str, status: RunStatus, message: str) -> None:
    begin, end = run(text)
    assert isinstance(begin, RunStarted)
    assert isinstance(end, RunEnded)
    assert end.status is status
    assert end.message.startswith(message)


def test_a_script_that_prints_much_does_not_wait_for_its_reader() -> None:
    events = run("for i in range(10_000): print('line', i)")
    assert isinstance(events[-1], RunEnded)
    assert events[-1].status is RunStatus.FINISHED
    log = (list_runs()[0].directory / "run.log").read_text()
    assert log.endswith("line 9999\n")


def test_a_script_that_ignores_interrupts_is_terminated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script_process, "_PATIENCE_S", 0.1)
    text = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "print('ready')\ntime.sleep(600)"
    )
    end = run(text, stop_when="ready")[-1]
    assert isinstance(end, RunEnded)
    assert end.status is RunStatus.KILLED
    assert end.message.startswith("the script was ended by SIGTERM")
    assert list_runs()[0].status is RunStatus.KILLED


def test_what_keeps_a_script_alive_after_its_end_can_be_stopped() -> None:
    text = (
        "import threading\nprint('ready')\n"
        "threading.Thread(target=threading.Event().wait).start()"
    )
    events = run(text, stop_when="ready")
    assert isinstance(events[-1], RunEnded)


def test_a_refusal_before_the_record_is_the_reason() -> None:
    Path("script.py").write_text("pass", encoding="utf-8")
    command = ScriptCommand("script.py", (), "", ("--set", "train.optimizer=adam"))
    events: list[Event] = []
    ScriptProcess(command)(RunControl(), events.append)
    (end,) = events
    assert isinstance(end, RunEnded)
    assert end.status is RunStatus.FAILED
    assert "train.optimizer: no call of a script" in end.message
    assert list_runs() == []
