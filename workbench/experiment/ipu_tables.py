"""The `[ipu]` section: nested tables or dotted keys, as one flat mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD
from ipu_runtime.plan.config.field import Field, nearest
from ipu_runtime.plan.problem import Problem, Severity
from workbench.experiment.field_values import read_value


def _names_by_category() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for field in IPU_CONFIG_FIELD.values():
        path = field.path
        while path:
            group, _, name = path.rpartition(".")
            if name not in names.setdefault(group, []):
                names[group].append(name)
            path = group
    return names


_NAMES = _names_by_category()


def read_ipu(table: Mapping[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Return the configuration's fields by dotted path; problems are appended."""
    values: dict[str, Any] = {}
    _read(table, "", values, problems)
    return values


def nested_ipu(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat mapping as nested tables, the opposite of the above."""
    tables: dict[str, Any] = {}
    for path, value in values.items():
        *groups, name = path.split(".")
        table = tables
        for group in groups:
            table = table.setdefault(group, {})
        table[name] = value
    return tables


def _read(
    table: Mapping[str, Any],
    prefix: str,
    values: dict[str, Any],
    problems: list[Problem],
) -> None:
    for key, value in table.items():
        path = f"{prefix}.{key}" if prefix else key
        field = IPU_CONFIG_FIELD.get(path)
        if field is not None:
            _read_field(field, value, values, problems)
        elif path not in _NAMES:
            problems.append(_unknown(path))
        elif isinstance(value, Mapping):
            _read(value, path, values, problems)
        else:
            hint = f"its fields: {', '.join(_NAMES[path])}"
            problems.append(Problem(f"ipu.{path}", "is a group of fields", hint))


def _read_field(
    field: Field, value: Any, values: dict[str, Any], problems: list[Problem]
) -> None:
    where = f"ipu.{field.path}"
    values[field.path], problem = read_value(field, value, where)
    if problem:
        problems.append(problem)
    if field.deprecated:
        problems.append(
            Problem(where, "is deprecated", field.deprecated, Severity.WARNING)
        )


def _unknown(path: str) -> Problem:
    group, _, name = path.rpartition(".")
    siblings = _NAMES.get(group, [])
    leaves = {field.name: field.path for field in IPU_CONFIG_FIELD.values()}
    guess = leaves.get(name) or nearest(name, siblings)
    if guess is None:
        elsewhere = nearest(name, leaves)
        guess = leaves[elsewhere] if elsewhere else None
    hint = "" if guess else f"valid: {', '.join(siblings or _NAMES[''])}"
    text = f"unknown field, did you mean {guess}?" if guess else "unknown field"
    return Problem(f"ipu.{path}", text, hint)
