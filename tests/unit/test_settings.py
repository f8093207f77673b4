"""Settings: environment over file over default, and never fatal."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from ipu_runtime.system.environment import prepare_environment
from workbench.locations import config_directory, data_directory
from workbench.settings import load_settings


def test_environment_overrules_file_and_file_overrules_default(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('theme = "nord"\nascii = true\n[keys]\nrun = "f9"\n')

    settings = load_settings(path, {"IPU_WORKBENCH_THEME": "gruvbox"})

    assert settings["theme"] == "gruvbox"
    assert settings["ascii"] is True
    assert settings["animations"] is True
    assert settings.keys == {"run": "f9"}
    assert settings.sources["theme"] == "IPU_WORKBENCH_THEME"
    assert settings.sources["ascii"] == str(path)
    assert settings.sources["animations"] == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thme = 'x'", "unknown setting; did you mean theme?"),
        ("ascii = 3", "3 is not true or false"),
        ("theme = true", "true is not text"),
        ("theme =", "cannot be read"),
        ("keys = 1", "keys: must be a table"),
    ],
)
def test_what_is_wrong_is_ignored_and_said(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)

    settings = load_settings(path, {})

    assert settings["theme"] == ""
    (problem,) = settings.problems
    assert message in str(problem)
    assert str(path) in str(problem)


def test_a_wrong_environment_variable_is_named(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "none", {"IPU_WORKBENCH_ASCII": "maybe"})

    assert settings["ascii"] is False
    assert 'IPU_WORKBENCH_ASCII: "maybe" is not true or false' in str(
        settings.problems[0]
    )


def test_one_variable_moves_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", "/somewhere")
    assert data_directory() == config_directory() == Path("/somewhere")


def test_relative_xdg_directories_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IPU_WORKBENCH_HOME", raising=False)
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("XDG_DATA_HOME", "rel")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    assert data_directory() == Path("/h/.local/share/ipu-workbench")
    assert config_directory() == Path("/c/ipu-workbench")


def test_empty_variables_are_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "KERAS_HOME", "XDG_DATA_HOME", "IPU_WORKBENCH_HOME"):
        monkeypatch.setenv(name, "")
    for name in ("TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND"):
        monkeypatch.setenv(name, os.environ.get(name, "tensorflow"))
    prepare_environment()
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert data_directory() == Path(home, ".local/share/ipu-workbench")
    assert "KERAS_HOME" not in os.environ
