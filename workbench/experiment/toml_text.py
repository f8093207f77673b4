"""TOML text for our own shapes: the standard library only reads TOML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(tables: Mapping[str, Any]) -> str:
    """Return nested tables as TOML; lists of tables become `[[...]]`."""
    return "\n\n".join(_sections((), tables)) + "\n"


def _sections(path: tuple[str, ...], table: Mapping[str, Any]) -> list[str]:
    plain = {key: value for key, value in table.items() if not _is_nested(value)}
    sections = []
    if plain:
        heading = [f"[{_dotted(path)}]"] if path else []
        sections.append("\n".join([*heading, *_assignments(plain)]))
    for key, value in table.items():
        if isinstance(value, Mapping):
            sections += _sections((*path, key), value)
        elif _is_nested(value):
            heading_text = f"[[{_dotted((*path, key))}]]"
            sections += [
                "\n".join([heading_text, *_assignments(entry)]) for entry in value
            ]
    return sections


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(entry, Mapping) for entry in value)
    )


def _assignments(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {toml_value(value)}" for key, value in table.items()]


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(_key(part) for part in path)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def toml_value(value: Any) -> str:
    """Return one value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inside = ", ".join(_assignments(value))
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    raise TypeError(f"TOML has no value for {value!r}")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    text = repr(value)
    return text if any(sign in text for sign in ".e") else f"{text}.0"


def _text(text: str) -> str:
    # JSON's escapes are TOML's too, apart from the delete character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
