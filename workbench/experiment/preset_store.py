"""Presets: the packaged ones, the user's own, and any TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import presets
from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.config.file_reading import read_file
from ipu_runtime.plan.config.toml_reading import TomlError, read_toml
from ipu_runtime.plan.problem import Problem
from ipu_runtime.system.file_replacing import replace_file
from workbench.experiment.data_tables import data_beside
from workbench.experiment.layer_blocks import LAYER_KEYS, LAYERS_OF
from workbench.experiment.model_tables import TRUSTED, tables_for_file
from workbench.experiment.toml_text import to_toml
from workbench.locations import NoHomeError, user_presets_directory
from workbench.models.model_source import anchored

DEFAULT_PRESET = "mnist-ipu-pipelined"
"""What the app shows first."""
DEFAULT_HEADLESS_PRESET = "mnist-dense"
"""What a bare command runs without a terminal: the quickest of the documents'."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_BYTES = 4 * 2**20


class PresetError(Exception):
    """A preset that cannot be found, read or written."""

    def __init__(
        self, where: str, problem: str, hint: str = "", field: str = ""
    ) -> None:
        self.where, self.problem, self.hint, self.field = where, problem, hint, field
        super().__init__(str(self.as_problem()))

    def as_problem(self) -> Problem:
        """Return it as a problem, to be listed with others."""
        where = f"{self.where}: {self.field}" if self.field else self.where
        return Problem(where, self.problem, self.hint)


class UnknownPreset(PresetError):
    """There is no preset of that name."""


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
        if not path.exists():
            raise PresetError(name_or_path, "there is no such file")
        return _read(path)
    files = {path.stem: path for path in reversed(list(_preset_files()))}
    if name_or_path in files:
        return _read(files[name_or_path])
    guess = nearest(name_or_path, files)
    hint = f"did you mean {guess}?" if guess else "see: ipu-workbench presets list"
    raise UnknownPreset(name_or_path, "there is no such preset", hint)


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
        replace_file(path, text)
    except OSError as error:
        raise PresetError(str(path), f"cannot be written: {error.strerror}") from error
    return path


def _without_experiment(tables: Mapping[str, Any]) -> dict[str, Any]:
    others = {name: table for name, table in tables.items() if name != "experiment"}
    return tables_for_file(others)


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
    tables = dict(_tables(path))
    experiment, model = tables.get("experiment", {}), tables.get("model")
    if isinstance(experiment, dict):
        tables["experiment"] = {"name": path.stem, **experiment}
    for section in ("data", "model"):
        table = tables.get(section)
        if isinstance(table, dict) and TRUSTED in table:
            hint = "leave it out, and say --trust on the command line"
            text = "a file cannot say that it is to be trusted"
            raise PresetError(str(path), text, hint, f"{section}.{TRUSTED}")
    data = tables.get("data")
    if isinstance(data, dict) and isinstance(data.get("dataset"), str):
        tables["data"] = {**data, "dataset": data_beside(data["dataset"], path.parent)}
    if not isinstance(model, dict):
        return Preset(path.stem, path, tables)
    if isinstance(model.get("source"), str) and model["source"]:
        tables["model"] = {**model, "source": anchored(model["source"], path.parent)}
    if LAYERS_OF in model:
        own = {key: value for key, value in model.items() if key != LAYERS_OF}
        tables["model"] = own | _taken_layers(model, path)
    return Preset(path.stem, path, tables)


def _tables(path: Path) -> Mapping[str, Any]:
    where = str(path)
    try:
        return _parsed(read_file(path, _MOST_BYTES).decode())
    except UnicodeDecodeError as error:
        raise PresetError(where, "is not UTF-8 text") from error
    except TomlError as error:
        raise PresetError(where, f"is not valid TOML: {error}") from error
    except OSError as error:
        raise PresetError(where, f"cannot be read: {error.strerror}") from error


@lru_cache(maxsize=8)
def _parsed(text: str) -> Mapping[str, Any]:
    # Many presets take the layers of the same one.
    return read_toml(text)


def _taken_layers(model: Any, path: Path) -> dict[str, Any]:
    """Return the layers of the preset that a `[model]` table names."""
    files = [path]
    while isinstance(model, dict) and LAYERS_OF in model:
        files.append(_source_of_layers(model, files[-1]))
        if files[-1] in files[:-1]:
            circle = " -> ".join(file.stem for file in files)
            hint = "write the layers into one of them"
            raise _layers_refused(path, f"{circle} is a circle", hint)
        model = _tables(files[-1]).get("model")
    found = model if isinstance(model, dict) else {}
    return {key: found[key] for key in LAYER_KEYS if key in found}


def _source_of_layers(model: Mapping[str, Any], path: Path) -> Path:
    """Return the file that a preset takes its layers from; packaged ones come first."""
    name = model[LAYERS_OF]
    for key in (*LAYER_KEYS, "source"):
        if key in model:
            raise _layers_refused(
                path, f"stands beside model.{key}", "keep one of both"
            )
    folders = (packaged_directory(), path.parent)
    if isinstance(name, str) and _NAME.fullmatch(name):
        for folder in folders:
            if (folder / f"{name}.toml").is_file():
                return folder / f"{name}.toml"
    valid = {file.stem for folder in folders for file in folder.glob("*.toml")}
    guess = nearest(str(name), valid - {path.stem})
    hint = "valid: the name of a packaged preset or of a file beside this one"
    hint = f"did you mean {guess}?" if guess else hint
    raise _layers_refused(path, f"there is no preset {name!r}", hint)


def _layers_refused(path: Path, problem: str, hint: str) -> PresetError:
    return PresetError(str(path), problem, hint, f"model.{LAYERS_OF}")
