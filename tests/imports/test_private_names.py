"""The hole in the wall that ruff does not see: private names given as texts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "ipu_runtime" / "frameworks"
REACHING = ("delattr", "getattr", "hasattr", "setattr", "Patch")


def _private_texts(source: str) -> list[str]:
    """Return the private names that are reached for by text."""
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in REACHING
        and len(node.args) > 1
    ]
    names = [call.args[1] for call in calls]
    return [
        str(name.value)
        for name in names
        if isinstance(name, ast.Constant)
        and str(name.value).startswith("_")
        and not str(name.value).endswith("__")
    ]


def test_a_private_name_in_a_text_is_found() -> None:
    assert _private_texts('getattr(model, "_layers", None)') == ["_layers"]
    assert _private_texts('Patch(keras.Model, "__new__", new)') == []


@pytest.mark.parametrize("package", ["ipu_runtime", "workbench"])
def test_only_the_room_reaches_for_private_names_by_text(package: str) -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / package).rglob("*.py"))
        if ROOM not in path.parents
        and (names := _private_texts(path.read_text(encoding="utf-8")))
    }
    assert found == {}
