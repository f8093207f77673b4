"""Which runs a line of words means: parts of their text, or values of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.experiment.field_differences import flatten
from workbench.experiment.field_values import value_text


def matches(words: str, text: str, tables: Callable[[], Mapping[str, Any]]) -> bool:
    """Tell whether a run has all words; `batch_size=64` asks for a field's value."""
    for word in words.lower().split():
        path, is_field, value = word.partition("=")
        found = _has(tables(), path, value) if is_field else word in text.lower()
        if not found:
            return False
    return True


def _has(tables: Mapping[str, Any], path: str, value: str) -> bool:
    return any(
        (name.lower() == path or name.lower().endswith(f".{path}"))
        and value_text(setting).lower().replace(" ", "").startswith(value)
        for name, setting in flatten(tables).items()
    )
