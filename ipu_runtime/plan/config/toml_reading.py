"""Reading TOML of unknown origin: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_LARGEST = 2**63
"""TOML's own limit, which Python's reader does not know."""
_MOST_WORK = 10_000_000
"""Less than two seconds; presets need a hundredth of it."""
_FLOAT = re.compile(r"(?<![\w.])\d++\.\d++(?![\w.])")


class TomlError(ValueError):
    """A text that is not TOML; the message says why."""


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    if _work(text) > _MOST_WORK:
        raise TomlError("its keys have too many parts")
    try:
        tables = tomllib.loads(text)
        _check(tables)
    except RecursionError:
        raise TomlError("it nests too deeply") from None
    except ValueError as error:
        # Not only TOML's own: a number of thousands of digits is another.
        raise TomlError(str(error).partition(";")[0]) from error
    return tables


def _work(text: str) -> int:
    """Return how much work the parts of keys are for Python's reader, at most.

    It takes their square for a key, and those of a table's name for every key in it.
    Where a key begins takes a parser to tell, so that every dot counts but numbers'.
    """
    work = longest = lines = 0
    for line in text.splitlines():
        lines += 1
        dots = line.count(".")
        if dots > 1:
            dots -= len(_FLOAT.findall(line))
            work += dots * dots
            if line.lstrip().startswith("["):
                longest = max(longest, dots)
    return work + longest * lines


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif type(value) is int and not -_LARGEST <= value < _LARGEST:
        raise ValueError("a whole number does not fit 64 bits")
