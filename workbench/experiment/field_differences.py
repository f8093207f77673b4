"""Which settings of several experiments differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.experiment.experiment_fields import FIELD_OF_PATH

_DESCRIPTIVE = ("experiment.title", "experiment.teaches", "experiment.source")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A setting that is not the same everywhere."""

    path: str
    values: tuple[Any, ...]
    """One per experiment; None where the experiment has no such setting."""


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one table of dotted paths; rows are numbered from 0."""
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}.")
        elif isinstance(value, list | tuple) and any(
            isinstance(item, Mapping) for item in value
        ):
            for index, item in enumerate(value):
                flat |= flatten({f"{path}[{index}]": item})
        else:
            flat[path] = list(value) if isinstance(value, tuple) else value
    return flat


def differing_fields(
    experiments: Sequence[Mapping[str, Any]],
) -> tuple[FieldDifference, ...]:
    """Return the settings that differ, a setting left out counting as its default."""
    flat = [flatten(tables) for tables in experiments]
    paths = dict.fromkeys(path for table in flat for path in table)
    differences = []
    for path in paths:
        if path in _DESCRIPTIVE or path.startswith("experiment.figures"):
            continue
        default = FIELD_OF_PATH[path].default if path in FIELD_OF_PATH else _ABSENT
        values = [table.get(path, default) for table in flat]
        if any(value != values[0] for value in values[1:]):
            shown = tuple(None if value is _ABSENT else value for value in values)
            differences.append(FieldDifference(path, shown))
    return tuple(differences)


def changed_fields(
    tables: Mapping[str, Any], original: Mapping[str, Any]
) -> tuple[FieldDifference, ...]:
    """Return the settings of an experiment that its preset has otherwise."""
    return differing_fields([tables, original])
