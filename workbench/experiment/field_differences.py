"""Which settings of several experiments differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.tables import value_in

_DESCRIPTIVE = ("experiment.title", "experiment.teaches", "experiment.source")
_FIGURES = "experiment.figures"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A setting that is not the same everywhere."""

    path: str
    values: tuple[Any, ...]
    """One per experiment; None where the experiment has no such setting."""


def differences(
    *experiments: Mapping[str, Any], described: bool = False
) -> tuple[FieldDifference, ...]:
    """Return what differs: fields in the form's order, then layers and other rows.

    Args:
        experiments: Their tables. A field left out counts as its default.
        described: Count the words that describe an experiment as well.
    """
    unwanted = () if described else _DESCRIPTIVE
    fields = (
        FieldDifference(path, tuple(value_in(tables, path) for tables in experiments))
        for path in FIELD_OF_PATH
        if path not in unwanted
    )
    return (*(item for item in fields if _differ(item.values)), *_others(experiments))


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return nested tables as one table of dotted paths; rows are numbered from 0.

    A field that takes a table of options is one value.
    """
    inner = _inner(value, path)
    if inner is None:
        return {path: list(value) if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for name, own in inner.items():
        flat |= flatten(own, name)
    return flat


def _others(values: Sequence[Any], path: str = "") -> Iterator[FieldDifference]:
    """Yield what differs at or below a path and is no field."""
    # Thousands of layers are mostly the very same list.
    same = all(value is values[0] for value in values)
    if same or path in FIELD_OF_PATH or path == _FIGURES:
        return
    tables = [_inner(value, path) for value in values]
    for name in dict.fromkeys(name for table in tables for name in table or ()):
        yield from _others([(table or {}).get(name) for table in tables], name)
    given = zip(values, tables, strict=True)
    leaves = tuple(value if table is None else None for value, table in given)
    if _differ(leaves):
        yield FieldDifference(path, leaves)


def _inner(value: Any, path: str) -> dict[str, Any] | None:
    """Return what a table or a list of tables holds by its path; None for others."""
    if path in FIELD_OF_PATH:
        return None
    if isinstance(value, Mapping):
        return {f"{path}.{name}" if path else name: own for name, own in value.items()}
    if isinstance(value, list | tuple) and any(
        isinstance(item, Mapping) for item in value
    ):
        return {f"{path}[{index}]": item for index, item in enumerate(value)}
    return None


def _differ(values: tuple[Any, ...]) -> bool:
    return any(value != values[0] for value in values[1:])
