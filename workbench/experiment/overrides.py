"""Single changes on top of a preset: `--set a.b=c`, and a form's fields."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import (
    parse_toml_value,
    parse_value,
    read_value,
)

_LAYER_PATH = re.compile(r"model\.layers\[(\d{1,20})\]\.(\w+)")
_ENVIRONMENT = "IPU_WORKBENCH_"
_SEPARATOR = "__"

Tables = Mapping[str, Any]


def apply_overrides(
    tables: Tables, overrides: Iterable[str]
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Return new tables with the `a.b=c` changes, and what is wrong with those."""
    changed = dict(tables)
    problems: list[Problem] = []
    for override in overrides:
        path, separator, text = override.partition("=")
        path = path.strip()
        if not separator:
            hint = "write it as field=value, for example train.epochs=1"
            problems.append(Problem(override, "is not a change of a field", hint))
            continue
        problem, value = _parse(changed, path, text)
        if problem:
            problems.append(problem)
        else:
            changed = set_value(changed, path, value)
    return changed, tuple(problems)


def set_value(tables: Tables, path: str, value: Any) -> dict[str, Any]:
    """Return new tables in which a field has another value; the old stay as they are.

    Only what lies on the way is copied, so that thousands of changes are cheap.
    """
    changed = dict(tables)
    layer = _LAYER_PATH.fullmatch(path)
    if layer:
        model = dict(changed.get("model", {}))
        layers = list(model.get("layers", []))
        layers[int(layer[1])] = {**layers[int(layer[1])], layer[2]: value}
        changed["model"] = {**model, "layers": layers}
        return changed
    *groups, name = path.split(".")
    table = changed
    for group in groups:
        inner = table.get(group)
        table[group] = dict(inner) if isinstance(inner, Mapping) else {}
        table = table[group]
    table[name] = copy.copy(value)
    if groups[0] == "ipu" and len(groups) > 1:
        # The same field may have been written with a dotted key.
        changed["ipu"].pop(path.removeprefix("ipu."), None)
    return changed


def environment_overrides(environment: Mapping[str, str]) -> list[str]:
    """Return the changes that variables make: IPU_WORKBENCH_TRAIN__EPOCHS=1."""
    overrides = []
    for name in sorted(environment):
        tail = name.removeprefix(_ENVIRONMENT)
        if tail != name and _SEPARATOR in tail:
            path = tail.lower().replace(_SEPARATOR, ".")
            overrides.append(f"{path}={environment[name]}")
    return overrides


def variable_of_field(path: str) -> str:
    """Return the environment variable that changes a field."""
    return _ENVIRONMENT + path.upper().replace(".", _SEPARATOR)


def _parse(tables: Tables, path: str, text: str) -> tuple[Problem | None, Any]:
    layer = _LAYER_PATH.fullmatch(path)
    if layer:
        return _parse_layer_setting(tables, path, int(layer[1]), text)
    field = FIELD_OF_PATH.get(path)
    if field is None:
        return _unknown(path), None
    value, problem = read_value(field, parse_value(field, text), path)
    return problem, value


def _parse_layer_setting(
    tables: Tables, path: str, position: int, text: str
) -> tuple[Problem | None, Any]:
    model = tables.get("model")
    layers: Any = model.get("layers") if isinstance(model, Mapping) else None
    if not isinstance(layers, Sequence) or not isinstance(
        layers[position] if position < len(layers) else None, Mapping
    ):
        last = len(layers) - 1 if isinstance(layers, Sequence) else -1
        hint = f"valid: model.layers[0] to model.layers[{last}]" if last >= 0 else ""
        return Problem(path, f"there is no layer {position}", hint), None
    value = parse_toml_value(text)
    return None, text if value is None else value


def _unknown(path: str) -> Problem:
    guess = nearest(path, FIELD_OF_PATH)
    if guess is None:
        by_name = {field.name: full for full, field in FIELD_OF_PATH.items()}
        name = nearest(path.rpartition(".")[2], by_name)
        guess = by_name[name] if name else None
    if guess:
        return Problem(path, f"unknown field, did you mean {guess}?")
    hint = "see: ipu-workbench presets show PRESET"
    return Problem(path, "unknown field", hint)
