"""Reading TOML of unknown origin: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import tomllib
from typing import Any

_LARGEST = 2**63
"""TOML's own limit, which Python's reader does not know."""


class TomlError(ValueError):
    """A text that is not TOML; the message says why."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    try:
        tables = tomllib.loads(text)
        _check(tables)
    except RecursionError:
        raise TomlError("it nests too deeply") from None
    except ValueError as error:
        # Not only TOML's own: a number of thousands of digits is another.
        raise TomlError(str(error).partition(";")[0]) from error
    return tables


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif type(value) is int and not -_LARGEST <= value < _LARGEST:
        raise ValueError("a whole number does not fit 64 bits")
