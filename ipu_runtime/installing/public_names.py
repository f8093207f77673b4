"""The public names of the real packages, as `public_names.json` lists them.

The file has, by SDK and module, a signature for a function, signatures by method for a
class, `members` for an enumeration and `= module.name` for a second place of a name or
of a module. A default of `...` is one whose value is not known. What a module imports
only for its own use is left out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IPU = "tensorflow.python.ipu"
_SECOND_PLACE = "= "


@dataclass(frozen=True, slots=True)
class PublicName:
    """A function, class, enumeration or constant, where the real package defines it."""

    sdk: str
    module: str
    name: str
    is_class: bool
    signatures: Mapping[str, str]
    """By method; a function's own is that of `""`, a constructor's `__init__`."""
    members: tuple[str, ...]
    places: tuple[str, ...]
    """Where else the real package has it."""

    @property
    def dotted(self) -> str:
        """The name as a script would write it in full."""
        return f"{self.module}.{self.name}"


@functools.cache
def public_names() -> tuple[PublicName, ...]:
    """Return every definition once, with its second places."""
    return tuple(
        _public_name(sdk, module, name, entry)
        for sdk, module, name, entry in _entries()
        if not _is_place(entry)
    )


@functools.cache
def second_places() -> Mapping[str, tuple[str, ...]]:
    """Return where else the real packages have a name or a module."""
    places: dict[str, tuple[str, ...]] = {}
    for _, module, name, entry in _entries():
        if _is_place(entry):
            target = _definition(f"{module}.{name}")
            places[target] = (*places.get(target, ()), f"{module}.{name}")
    return places


@functools.cache
def public_modules() -> Mapping[str, tuple[str, ...]]:
    """Return the modules of the real packages with the definitions behind their names.

    A module that is only known from being imported elsewhere has no names.
    """
    modules: dict[str, tuple[str, ...]] = {}
    for _, module, name, entry in _entries():
        modules[module] = (*modules.get(module, ()), _definition(f"{module}.{name}"))
        if _is_place(entry) and (target := entry[len(_SECOND_PLACE) :]) not in _flat():
            modules.setdefault(target, ())
    return modules


def root_names() -> frozenset[str]:
    """Return what the real `ipu` has as attributes and submodules."""
    dotted = (*_flat(), *public_modules())
    return frozenset(
        name[len(IPU) + 1 :].partition(".")[0]
        for name in dotted
        if name.startswith(f"{IPU}.")
    )


def is_real(dotted: str) -> bool:
    """Tell whether the real packages have a module or a name, or something in it."""
    return any(
        name == dotted or name.startswith(f"{dotted}.")
        for name in (*_flat(), *public_modules())
    )


def _public_name(sdk: str, module: str, name: str, entry: Any) -> PublicName:
    is_class = isinstance(entry, dict)
    methods = dict(entry) if is_class else {"": entry} if entry[0] == "(" else {}
    members = tuple(methods.pop("members", ()))
    places = second_places().get(f"{module}.{name}", ())
    return PublicName(sdk, module, name, is_class, methods, members, places)


def _is_place(entry: Any) -> bool:
    return isinstance(entry, str) and entry.startswith(_SECOND_PLACE)


def _definition(dotted: str) -> str:
    """Follow second places to where a name is defined."""
    while _is_place(_flat().get(dotted)):
        dotted = _flat()[dotted][len(_SECOND_PLACE) :]
    return dotted


@functools.cache
def _entries() -> tuple[tuple[str, str, str, Any], ...]:
    path = Path(__file__).with_name("public_names.json")
    by_sdk = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        (sdk, module, name, entry)
        for sdk, modules in by_sdk.items()
        for module, names in modules.items()
        for name, entry in names.items()
    )


@functools.cache
def _flat() -> Mapping[str, Any]:
    return {f"{module}.{name}": entry for _, module, name, entry in _entries()}
