"""Models of the user's own on the command line: what is refused, and how."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from workbench.headless.main import main


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = main(arguments, {}, _no_app)
    output = capsys.readouterr()
    assert output.out == ""
    return code, output.err.splitlines()


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("a command opens no app")


def _archive(path: Path, config: Any, name: str = "config.json") -> str:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, json.dumps(config))
    return str(path)


def test_an_unknown_application_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, (line,) = _said(capsys, "plan", "keras:ResNet5O")
    assert code == 2
    assert "did you mean keras:ResNet50?" in line


@pytest.mark.parametrize("command", ["plan", "run", "import"])
def test_a_missing_file_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    code, (line,) = _said(capsys, command, str(tmp_path / "none.keras"))
    assert code == 2
    assert "No such file" in line


def test_a_current_directory_that_was_deleted_is_named(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    code, (line,) = _said(capfd, "plan", "own.py:build")
    assert code == 1
    assert line == "the current directory: No such file or directory"


def test_a_pipe_is_refused_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.keras")
    code, (line,) = _said(capsys, "plan", str(tmp_path / "pipe.keras"))
    assert code == 2
    assert "is not a regular file" in line


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("import", "own.py:build", "--output", "own.py"), "--output"),
        (("capture", "own.py", "--output", "link.py"), "--output"),
        (("export", "own.py:build", "--script", "./own.py"), "--script"),
        (("plan", "own.py:build", "--trace", "own.py"), "--trace"),
        (("optimize", "own.py:build", "--apply=1", "--output=own.py"), "--output"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_is_read_is_not_overwritten(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    option: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("raise SystemExit(9)")
    Path("link.py").symlink_to("own.py")
    code, (line,) = _said(capsys, *arguments)
    assert code == 2
    assert line.startswith(f"{option}: ")
    assert "own.py is read; choose another file" in line
    assert Path("own.py").read_text() == "raise SystemExit(9)"


@pytest.mark.parametrize("target", ["pipe", "."])
def test_a_capture_needs_room_for_two_files(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("own.py").write_text("raise SystemExit(9)")
    code, (line,) = _said(capsys, "capture", "own.py", "--output", target)
    assert code == 2
    assert "is no regular file" in line


def test_what_is_no_source_cannot_be_imported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, (line,) = _said(capsys, "import", "mnist-ipu")
    assert code == 2
    assert "keras:NAME" in line


def test_a_preset_with_a_function_runs_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    preset = tmp_path / "my.toml"
    preset.write_text(
        '[experiment]\ntitle = "t"\n[data]\ndataset = "synthetic"\n'
        '[model]\nsource = "net.py:build"\n'
    )
    code, (line,) = _said(capsys, "plan", str(preset))
    assert code == 2
    assert "--trust" in line
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"class_name": "Lambda", "module": "keras.layers", "config": {}},
            "holds a Lambda, which is code",
        ),
        ({"class_name": "Popen", "module": "subprocess", "config": {}}, "Popen"),
        ([], "holds no configuration"),
        (
            {"class_name": "Dense", "module": "keras.layers", "config": {"units": -1}},
            "",
        ),
    ],
)
def test_a_hostile_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Any, words: str
) -> None:
    path = _archive(tmp_path / "net.keras", config)
    code, (reading, line) = _said(capsys, "plan", path)
    assert code == 2
    assert reading.startswith("reading ")
    assert line.startswith(f"{path}: model.source: ")
    assert words in line
