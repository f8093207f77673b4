"""Presets: the packaged ones, the user's own, and any TOML file."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import presets
from ipu_runtime.plan.field import nearest
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.toml_reading import TomlError, read_toml
from workbench.core.locations import NoHomeError, user_presets_directory
from workbench.core.toml_text import to_toml

DEFAULT_PRESET = "mnist-ipu-pipelined"
"""What the app shows first."""
DEFAULT_HEADLESS_PRESET = "mnist-dense"
"""What a bare command runs without a terminal: the quickest of the documents'."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_BYTES = 4 * 2**20


class PresetError(Exception):
    """A preset that cannot be found, read or written."""

    def __init__(self, where: str, problem: str, hint: str = "") -> None:
        self.where, self.problem, self.hint = where, problem, hint
        super().__init__(str(self.as_problem()))

    def as_problem(self) -> Problem:
        """Return it as a problem, to be listed with others."""
        return Problem(self.where, self.problem, self.hint)


@dataclass(frozen=True)
class Preset:
    """An experiment as its file states it."""

    name: str
    path: Path
    tables: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    """Why the file could not be read; empty for a file that could."""

    @property
    def packaged(self) -> bool:
        """Whether it comes with the workbench."""
        return self.path.parent == packaged_directory()

    @property
    def title(self) -> str:
        """One line that says what it is."""
        return self._text("title")

    @property
    def group(self) -> str:
        """Heading under which it is listed."""
        return self._text("group") or "Own presets"

    def _text(self, name: str) -> str:
        experiment = self.tables.get("experiment")
        value = experiment.get(name) if isinstance(experiment, Mapping) else None
        return value if isinstance(value, str) else ""


def packaged_directory() -> Path:
    """Return the directory of the presets that come with the workbench."""
    return Path(presets.__file__).parent


def list_presets() -> list[Preset]:
    """Return all presets, the packaged ones first and in teaching order."""
    return [_try_to_read(path) for path in _preset_files()]


def load_preset(name_or_path: str) -> Preset:
    """Return a preset by its name or by the path of its file."""
    if _looks_like_path(name_or_path):
        path = Path(os.path.expanduser(name_or_path))
        if not path.is_file():
            raise PresetError(name_or_path, "there is no such file")
        return _read(path)
    files = {path.stem: path for path in reversed(list(_preset_files()))}
    if name_or_path in files:
        return _read(files[name_or_path])
    guess = nearest(name_or_path, files)
    hint = f"did you mean {guess}?" if guess else "see: ipu-workbench presets list"
    raise PresetError(name_or_path, "there is no such preset", hint)


def save_preset(
    name: str, tables: Mapping[str, Any], *, overwrite: bool = False
) -> Path:
    """Write a preset of the user; packaged ones cannot be replaced."""
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, '.', '_' and '-', at most 64"
        raise PresetError("experiment.name", f"{name!r} is no preset name", hint)
    if (packaged_directory() / f"{name}.toml").exists():
        hint = "choose another name"
        raise PresetError("experiment.name", f"{name} is a packaged preset", hint)
    directory = user_presets_directory()
    path = directory / f"{name}.toml"
    if path.exists() and not overwrite:
        raise PresetError("experiment.name", f"{path} exists already")
    experiment = {**tables.get("experiment", {}), "name": name}
    text = to_toml({"experiment": experiment, **_without_experiment(tables)})
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise PresetError(str(path), f"cannot be written: {error.strerror}") from error
    return path


def _without_experiment(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in tables.items() if name != "experiment"}


def _replace(path: Path, text: str) -> None:
    """Write beside and rename, so that a reader never sees half a file."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".preset-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _looks_like_path(text: str) -> bool:
    return text.endswith(".toml") or os.sep in text or "/" in text


def _preset_files() -> Iterator[Path]:
    packaged = {path.stem: path for path in packaged_directory().glob("*.toml")}
    for name in presets.ORDER:
        if name in packaged:
            yield packaged.pop(name)
    yield from (packaged[name] for name in sorted(packaged))
    yield from (path for path in _own_files() if _NAME.fullmatch(path.stem))


def _own_files() -> list[Path]:
    try:
        folder = user_presets_directory()
    except NoHomeError:
        return []
    return sorted(folder.glob("*.toml")) if folder.is_dir() else []


def _try_to_read(path: Path) -> Preset:
    try:
        return _read(path)
    except PresetError as error:
        return Preset(path.stem, path, problems=(error.as_problem(),))


def _read(path: Path) -> Preset:
    where = str(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise PresetError(where, "is larger than any preset", "at most 4 MiB")
        tables = read_toml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise PresetError(where, "is not UTF-8 text") from error
    except TomlError as error:
        raise PresetError(where, f"is not valid TOML: {error}") from error
    except OSError as error:
        raise PresetError(where, f"cannot be read: {error.strerror}") from error
    experiment = tables.setdefault("experiment", {})
    if isinstance(experiment, dict):
        experiment.setdefault("name", path.stem)
    return Preset(path.stem, path, tables)
