"""How the user likes the workbench: settings file, overruled by the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ipu_runtime.plan.config.field import Field, Kind, nearest
from ipu_runtime.plan.config.file_reading import read_file
from ipu_runtime.plan.config.toml_reading import TomlError, read_toml
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.system.file_replacing import replace_file
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import parse_value, read_value
from workbench.experiment.overrides import environment_overrides, variable_of_field
from workbench.locations import NoHomeError, settings_file

SETTINGS_FIELDS: tuple[Field, ...] = (
    Field("theme", Kind.TEXT, "", "Colours of the app; empty means its default."),
    Field("preset", Kind.TEXT, "", "Preset at the start; the app keeps the last one."),
    Field("ascii", Kind.BOOL, False, "Whether to avoid braille and box characters."),
    Field("animations", Kind.BOOL, True, "Whether the app moves things smoothly."),
)

_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its value, and where the value comes from."""

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    """`default`, the settings file's path or the environment variable's name."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of actions by the action's id, from the table `[keys]`."""
    changes: tuple[str, ...] = ()
    """What variables change in every experiment: IPU_WORKBENCH_TRAIN__EPOCHS=1."""
    problems: tuple[Problem, ...] = ()
    """What was ignored, and why; settings never keep the workbench from starting."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def variable_of(name: str) -> str:
    """Return the environment variable that overrules a setting."""
    return f"IPU_WORKBENCH_{name.upper()}"


def load_settings(
    path: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Read the settings: environment, then file, then default."""
    environment = os.environ if environment is None else environment
    problems: list[Problem] = []
    try:
        path = path or settings_file()
    except NoHomeError as error:
        path = Path("settings.toml")
        tables = {}
        problems.append(_ignored("settings", str(error)))
    else:
        tables = _read_file(path, problems)
    keys = _read_keys(tables.pop("keys", {}), path, problems)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS_FIELDS:
        values[setting.name], sources[setting.name] = setting.default, "default"
        candidates = [(str(path), tables.pop(setting.name, None))]
        variable = variable_of(setting.name)
        if variable in environment:
            candidates.append((variable, parse_value(setting, environment[variable])))
        for source, written in candidates:
            if written is None:
                continue
            where = source if source == variable else f"{source}: {setting.name}"
            value, problem = read_value(setting, written, where)
            if problem:
                problems.append(replace(problem, severity=Severity.WARNING))
            else:
                values[setting.name], sources[setting.name] = value, source
    for name in tables:
        guess = nearest(name, [setting.name for setting in SETTINGS_FIELDS])
        hint = f"did you mean {guess}?" if guess else ""
        problems.append(_ignored(f"{path}: {name}", "unknown setting", hint))
    changes = _read_changes(environment, problems)
    return Settings(values, sources, keys, changes, tuple(problems))


def _read_changes(
    environment: Mapping[str, str], problems: list[Problem]
) -> tuple[str, ...]:
    changes = []
    for change in environment_overrides(environment):
        path = change.partition("=")[0]
        if path in FIELD_OF_PATH:
            changes.append(change)
        else:
            guess = nearest(path, FIELD_OF_PATH)
            hint = f"did you mean {variable_of_field(guess)}?" if guess else ""
            problems.append(_ignored(variable_of_field(path), "unknown field", hint))
    return tuple(changes)


def _read_file(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        return read_toml(read_file(path, _MOST_BYTES).decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(_ignored(str(path), f"cannot be read: {error.strerror}"))
        return {}
    except (UnicodeDecodeError, TomlError) as error:
        problems.append(_ignored(str(path), f"cannot be read: {error}"))
        return {}


def _read_keys(table: Any, path: Path, problems: list[Problem]) -> dict[str, str]:
    if not isinstance(table, dict):
        problems.append(_ignored(f"{path}: keys", "must be a table"))
        return {}
    wrong = [name for name, key in table.items() if not isinstance(key, str)]
    for name in wrong:
        problems.append(_ignored(f"{path}: keys.{name}", "must be text"))
    return {name: key for name, key in table.items() if name not in wrong}


def _ignored(where: str, problem: str, hint: str = "") -> Problem:
    return Problem(where, problem, hint, Severity.WARNING)


def remember(name: str, value: str, path: Path | None = None) -> None:
    """Keep a text setting in the settings file, whose other lines stay as they are."""
    path = path or settings_file()
    lines = []
    if path.exists():
        lines = read_file(path, _MOST_BYTES).decode().splitlines()
    first_table = next(
        (i for i, text in enumerate(lines) if text.lstrip().startswith("[")), len(lines)
    )
    kept = [
        text
        for i, text in enumerate(lines)
        if i >= first_table or text.partition("=")[0].strip() != name
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"{name} = {json.dumps(value)}", *kept]) + "\n"
    replace_file(path, text)
