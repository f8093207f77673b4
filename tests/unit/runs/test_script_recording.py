"""What a script's recording keeps, and that it never disturbs the script."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request_json import request_from_json, request_to_json
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs import run_record
from workbench.runs.events import RunStatus
from workbench.runs.run_store import open_run
from workbench.scripts.git_commit import commit_of
from workbench.scripts.recording import ScriptRecording
from workbench.scripts.script_log import ScriptLog, copied_output

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("preset", ["mnist-ipu", "mnist-ipu-pipelined"])
def test_a_stored_request_is_planned_alike(preset: str) -> None:
    spec, _ = validate(load_preset(preset).tables)
    assert spec is not None
    plan = plan_experiment(spec)
    again = request_from_json(request_to_json(plan.request))
    assert make_plan(again).ipu_step_us == plan.ipu_step_us
    assert again.pipeline == plan.request.pipeline


@pytest.mark.parametrize("broken", [None, [], {}, {"model": 3, "pipeline": None}])
def test_a_damaged_request_is_refused(broken: object) -> None:
    with pytest.raises(ValueError, match="not a stored request"):
        request_from_json(broken)


def test_a_redrawn_line_is_kept_as_it_was_last_seen(tmp_path: Path) -> None:
    log = ScriptLog(tmp_path / "run.log")
    for piece in ("one\n1/3", "\r2/3", "\r3/3\nta", "il"):
        log.add(piece)
        log.write()
    log.write(rest=True)
    assert (tmp_path / "run.log").read_text() == "one\n3/3\ntail\n"


def test_output_is_copied_and_the_streams_stay_what_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, kept = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), []
    monkeypatch.setattr(sys, "stdout", terminal)
    with copied_output(kept.append):
        print("seen", 1)
        sys.stdout.writelines(["and ", "this"])
        assert sys.stdout is terminal
    print("later")
    terminal.flush()
    assert "".join(kept) == "seen 1\nand this"
    assert terminal.buffer.getvalue() == b"seen 1\nand thislater\n"  # type: ignore[attr-defined]


def _repository(root: Path, head: str) -> Path:
    (root / ".git/refs/heads").mkdir(parents=True)
    (root / ".git/HEAD").write_text(head)
    script = root / "inner/script.py"
    script.parent.mkdir()
    script.touch()
    return script


def test_the_commit_is_read_from_the_repository(tmp_path: Path) -> None:
    script = _repository(tmp_path / "a", "ref: refs/heads/main\n")
    assert commit_of(script) == ""
    (tmp_path / "a/.git/packed-refs").write_text(f"{COMMIT} refs/heads/main\n")
    assert commit_of(script) == COMMIT
    newer = COMMIT[::-1]
    (tmp_path / "a/.git/refs/heads/main").write_text(f"{newer}\n")
    assert commit_of(script) == newer
    assert commit_of(_repository(tmp_path / "b", f"{COMMIT}\n")) == COMMIT
    linked = tmp_path / "c/script.py"
    linked.parent.mkdir()
    (tmp_path / "c/.git").write_text(f"gitdir: {tmp_path / 'b/.git'}\n")
    assert commit_of(linked) == COMMIT


@pytest.mark.usefixtures("home")
def test_a_full_disk_ends_the_record_and_not_the_script(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    recording = ScriptRecording()
    recording.began(__file__, ["--fast"])
    monkeypatch.setattr(run_record, "append_line", _explaining(full))
    for _ in range(3):
        print("still here")
    recording.ended(0, None)
    shown = capfd.readouterr()
    assert shown.out == "still here\n" * 3
    assert shown.err.count("\n") == 1
    assert "the disk is full" in shown.err
    assert "not complete" in open_run("latest").message


def _explaining(fails: object) -> object:
    def append(path: Path, *_: object, **__: object) -> None:
        with run_record.explained(path):
            fails()  # type: ignore[operator]

    return append


@pytest.mark.usefixtures("home")
def test_a_place_that_cannot_be_written_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "file"))
    recording = ScriptRecording()
    recording.began(__file__, [])
    recording.ended(0, None)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("code", "error", "status", "message"),
    [
        (0, None, RunStatus.FINISHED, ""),
        (0, SystemExit(0), RunStatus.FINISHED, ""),
        (7, SystemExit(7), RunStatus.FAILED, "the script ended with exit code 7"),
        (1, OSError("no data\nmore"), RunStatus.FAILED, "OSError: no data"),
        (130, KeyboardInterrupt(), RunStatus.STOPPED, "interrupted"),
    ],
)
def test_the_record_says_how_the_script_ended(
    code: int, error: BaseException | None, status: RunStatus, message: str
) -> None:
    recording = ScriptRecording()
    recording.began(__file__, ["a", "b c"])
    recording.ended(code, error)
    run = open_run("latest")
    assert (run.status, run.message) == (status, message)
    assert run.script["arguments"] == ["a", "b c"]
    assert run.summary["exit_code"] == code
