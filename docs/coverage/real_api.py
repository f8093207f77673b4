"""What the list of public names says of every name of the real packages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipu_runtime.installing.public_names import defined_at, entries


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
        for sdk, module, name, entry in entries()
        if not defined_at(entry)
    )


@functools.cache
def public_modules() -> Mapping[str, tuple[str, ...]]:
    """Return the modules of the real packages with the definitions behind their names.

    A module that is only known from being imported elsewhere has no names.
    """
    definitions = _definitions()
    modules: dict[str, tuple[str, ...]] = {}
    for _, module, name, entry in entries():
        definition = definitions[f"{module}.{name}"]
        modules[module] = (*modules.get(module, ()), definition)
        if (target := defined_at(entry)) and target not in definitions:
            modules.setdefault(target, ())
    return modules


def second_places(dotted: str) -> tuple[str, ...]:
    """Return where else the real packages have a name or a module."""
    return tuple(
        place
        for place, definition in _definitions().items()
        if definition == dotted != place
    )


@functools.cache
def _definitions() -> Mapping[str, str]:
    """Return the definition behind every name, following second places."""
    targets = {f"{module}.{name}": defined_at(e) for _, module, name, e in entries()}

    def definition(dotted: str) -> str:
        target = targets.get(dotted)
        return definition(target) if target else dotted

    return {dotted: definition(dotted) for dotted in targets}


def _public_name(sdk: str, module: str, name: str, entry: Any) -> PublicName:
    is_class = isinstance(entry, dict)
    methods = dict(entry) if is_class else {"": entry} if entry[0] == "(" else {}
    members = tuple(methods.pop("members", ()))
    places = second_places(f"{module}.{name}")
    return PublicName(sdk, module, name, is_class, methods, members, places)
