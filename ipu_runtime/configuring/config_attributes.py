"""The strict attribute tree behind `IPUConfig`, made from the field declarations."""

from __future__ import annotations

import copy
import logging
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.plan.config.config_enums import ENUM_OF_FIELD
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD, IPU_CONFIG_FIELDS
from ipu_runtime.plan.config.field import Field, Kind, nearest

# TensorFlow's own logger by name, so that warnings look like TensorFlow's without
# loading it.
logger = logging.getLogger("tensorflow")

_TYPES: dict[Kind, type] = {
    Kind.BOOL: bool,
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.TEXT: str,
    Kind.CHOICE: str,
    Kind.OPTIONS: dict,
}
_SELECTION_TYPE = typing.Union[int, typing.List[int], typing.Tuple[int, ...]]  # noqa: UP006, UP007
"""As the metadata give it in words, too."""


@dataclass(frozen=True)
class AttributeMetadata:
    """What is known about one attribute or category of the configuration."""

    name: str
    """Full dotted name."""
    type: str | None
    """Text of the type; None for a category."""
    default: Any
    """None for a category."""
    deprecated: bool
    deprecated_msg: str | None
    __doc__: str

    @property
    def actual_type(self) -> Any:
        """The type itself; None for a category."""
        if self.type is None:
            return None
        field = IPU_CONFIG_FIELD[self.name]
        if field.kind is Kind.IPU_SELECTION:
            return _SELECTION_TYPE
        return _declared_type(field)

    def check_type(self, value: Any) -> None:
        """Raise TypeError unless the value is exactly of the attribute's type."""
        if self.type is not None:
            check_type(IPU_CONFIG_FIELD[self.name], value)

    def warn_if_deprecated(self) -> None:
        """Log one warning for a deprecated attribute."""
        if self.deprecated:
            logger.warning("%s has been deprecated: %s", self.name, self.deprecated_msg)


def type_text(field: Field) -> str:
    """Return the text of a field's type, as the metadata give it."""
    if field.kind is Kind.IPU_SELECTION:
        return str(_SELECTION_TYPE)
    return _declared_type(field).__name__


def check_type(field: Field, value: Any) -> None:
    """Raise TypeError unless the value is exactly of the field's type."""
    if field.kind is Kind.IPU_SELECTION:
        valid = type(value) is int or (
            type(value) in (list, tuple) and all(type(item) is int for item in value)
        )
    else:
        valid = type(value) is _declared_type(field)
    if not valid:
        raise TypeError(
            f"Trying to set {field.path} to {value!r} (of type "
            f"{type(value).__name__}), but it must be of type {type_text(field)}."
        )


def enum_default(field: Field) -> Any:
    """Return a field's default as the API has it: enumerations as members."""
    enum = ENUM_OF_FIELD.get(field.path)
    return enum[field.default] if enum else copy.deepcopy(field.default)


def _declared_type(field: Field) -> type:
    return ENUM_OF_FIELD.get(field.path) or _TYPES[field.kind]


def _categories() -> set[str]:
    found: set[str] = set()
    for field in IPU_CONFIG_FIELDS:
        parts = field.group.split(".") if field.group else []
        found.update(".".join(parts[: end + 1]) for end in range(len(parts)))
    return found


CATEGORIES: frozenset[str] = frozenset(_categories())


class ConfigCategory:
    """A part of the configuration; every attribute is known and typed."""

    def __init__(self, prefix: str, values: dict[str, Any]) -> None:
        # Around the own __setattr__, which lets nothing through that is no field.
        object.__setattr__(self, "_prefix", prefix)
        object.__setattr__(self, "_values", values)

    def _dotted(self, name: str) -> str:
        return f"{self._prefix}.{name}" if self._prefix else name

    def _unknown(self, name: str) -> ValueError:
        siblings = [path.rpartition(".")[2] for path in self._names()]
        match = nearest(name, siblings)
        hint = f" Did you mean '{self._dotted(match)}'?" if match else ""
        return ValueError(
            f"'{self._dotted(name)}' is not a valid attribute of this config.{hint}"
        )

    def _names(self) -> list[str]:
        paths = [*self._values, *sorted(CATEGORIES)]
        return [path for path in paths if path.rpartition(".")[0] == self._prefix]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Protocols such as copying ask for names that may be absent.
            raise AttributeError(name)
        dotted = self._dotted(name)
        if dotted in self._values:
            return self._values[dotted]
        if dotted in CATEGORIES:
            return ConfigCategory(dotted, self._values)
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        dotted = self._dotted(name)
        if dotted in CATEGORIES:
            raise Exception(
                f"'{dotted}' is a category of the config and cannot be assigned to; "
                "assign to its attributes."
            )
        if dotted not in self._values:
            raise self._unknown(name)
        field = IPU_CONFIG_FIELD[dotted]
        check_type(field, value)
        self.get_attribute_metadata(name).warn_if_deprecated()
        self._values[dotted] = value
        notice(f"ipu.{dotted}")

    def __delattr__(self, name: str) -> None:
        raise self._unknown(name)

    def __dir__(self) -> list[str]:
        names = [path.rpartition(".")[2] for path in self._names()]
        return sorted({*object.__dir__(self), *names})

    def __deepcopy__(self, memo: dict[int, Any]) -> ConfigCategory:
        clone = object.__new__(type(self))
        object.__setattr__(clone, "_prefix", self._prefix)
        object.__setattr__(clone, "_values", copy.deepcopy(self._values, memo))
        return clone

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """Describe an attribute or category, named relative to this one."""
        dotted = self._dotted(attr)
        if dotted in CATEGORIES:
            return AttributeMetadata(dotted, None, None, False, None, f"{dotted}.*")
        field = IPU_CONFIG_FIELD.get(dotted)
        if field is None:
            raise ValueError(
                f"Could not get attribute metadata for '{dotted}': it is not an "
                "attribute of this config."
            )
        return AttributeMetadata(
            dotted,
            type_text(field),
            enum_default(field),
            bool(field.deprecated),
            field.deprecated or None,
            field.help,
        )

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return all values inside by their full dotted names."""
        inside = f"{self._prefix}." if self._prefix else ""
        for path, value in self._values.items():
            if path.startswith(inside):
                yield path, value

    def _lines(self) -> list[str]:
        return [f"{path} = {_shown(value)}" for path, value in self.items()]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        title = type(self).__name__ if not self._prefix else self._prefix
        return "\n".join([f"{title}:", *(f"  {line}" for line in self._lines())])


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)
