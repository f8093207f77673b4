"""Submodules that are there as attributes, but load only when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def submodules(package: str, *names: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package with these submodules."""

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return load
