"""Values of declared fields: reading them from text, and checking them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.config.field import Field, Kind, nearest
from ipu_runtime.plan.config.toml_reading import TomlError, read_toml
from ipu_runtime.plan.problem import Problem
from ipu_runtime.reports.plain_text import is_plain

_FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_LISTS = (Kind.INT_LIST, Kind.TEXT_LIST, Kind.IPU_SELECTION)


def parse_value(field: Field, text: str) -> Any:
    """Return the value that a text means; the text itself if it means none."""
    text = text.strip()
    if field.kind is Kind.BOOL:
        return _FLAGS.get(text.lower(), text)
    if field.kind in (Kind.TEXT, Kind.CHOICE):
        return _unquoted(text)
    if field.kind in _LISTS and text[:1] not in ("[", "{"):
        return _parse_list(field, text)
    if field.kind is Kind.OPTIONS and text[:1] != "{":
        return _parse_options(text)
    value = parse_toml_value(text)
    return _unquoted(text) if value is None else value


def parse_toml_value(text: str) -> Any:
    """Return the value of a TOML expression, or None if it is none."""
    try:
        return read_toml(f"value = {text}")["value"]
    except (TomlError, KeyError):
        return None


def read_value(field: Field, value: Any, where: str) -> tuple[Any, Problem | None]:
    """Return the value in its normal form, and what is wrong with it."""
    kind = field.kind
    if kind is Kind.BOOL:
        return value, None if type(value) is bool else _wrong_type(field, value, where)
    if kind is Kind.INT:
        if type(value) is not int:
            return value, _wrong_type(field, value, where)
        return value, _range_problem(field, value, where)
    if kind is Kind.FLOAT:
        if type(value) not in (int, float) or not math.isfinite(value):
            return value, _wrong_type(field, value, where)
        return float(value), _range_problem(field, value, where)
    if kind is Kind.TEXT:
        if type(value) is not str:
            return value, _wrong_type(field, value, where)
        return value, _unprintable_problem([value], where)
    if kind is Kind.CHOICE:
        return value, _choice_problem(field, value, where)
    if kind is Kind.STEPS:
        return value, _steps_problem(field, value, where)
    if kind is Kind.OPTIONS:
        return value, _options_problem(field, value, where)
    return _read_list(field, value, where)


def describe_valid(field: Field) -> str:
    """Return in words what the field takes."""
    if field.choices:
        choices = " or ".join(choice or '""' for choice in field.choices)
        return choices if field.kind is Kind.CHOICE else f"a list of {choices}"
    text = field.kind.value
    low, high = _limit(field.minimum), _limit(field.maximum)
    if low and high:
        return f"{text} from {low} to {high}"
    if low:
        return f"{text}, at least {low}"
    return f"{text}, at most {high}" if high else text


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def _parse_list(field: Field, text: str) -> Any:
    if field.kind is Kind.IPU_SELECTION and "," not in text:
        value = parse_toml_value(text)
        return text if value is None else value
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if field.kind is Kind.TEXT_LIST:
        return [_unquoted(part) for part in parts]
    values = [parse_toml_value(part) for part in parts]
    return text if None in values else values


def _parse_options(text: str) -> Any:
    options = {}
    for part in text.split(",") if text else []:
        name, separator, value = part.partition("=")
        if not separator:
            return text
        options[name.strip()] = _unquoted(value.strip())
    return options


def _wrong_type(field: Field, value: Any, where: str) -> Problem:
    return Problem(
        where,
        f"{_shown(value)} is not {field.kind.value}",
        f"valid: {describe_valid(field)}",
        suggestion=field.default,
        exception="TypeError",
    )


def _range_problem(field: Field, value: float, where: str) -> Problem | None:
    nearest_valid: float = value
    if field.minimum is not None and value < field.minimum:
        nearest_valid = field.minimum
    elif field.maximum is not None and value > field.maximum:
        nearest_valid = field.maximum
    else:
        return None
    suggestion = int(nearest_valid) if field.kind is not Kind.FLOAT else nearest_valid
    return Problem(
        where,
        f"{value} is out of range",
        f"valid: {describe_valid(field)}",
        suggestion=suggestion,
    )


def _choice_problem(field: Field, value: Any, where: str) -> Problem | None:
    if type(value) is str and value in field.choices:
        return None
    valid = f"valid: {describe_valid(field)}"
    if type(value) is not str:
        text = f"{_shown(value)} is not {field.kind.value}"
        return Problem(where, text, valid, suggestion=field.default)
    lowered = {choice.lower(): choice for choice in field.choices}
    guess = nearest(value.lower(), lowered)
    hint = f"did you mean {lowered[guess]}? {valid}" if guess else valid
    suggestion = lowered[guess] if guess else field.default
    text = f"{_shown(value)} is not one of its choices"
    return Problem(where, text, hint, suggestion=suggestion)


def _steps_problem(field: Field, value: Any, where: str) -> Problem | None:
    if value == "epoch":
        return None
    if type(value) is not int:
        return _wrong_type(field, value, where)
    return _range_problem(field, value, where)


def _options_problem(field: Field, value: Any, where: str) -> Problem | None:
    if type(value) is dict and all(
        type(name) is str and type(text) is str for name, text in value.items()
    ):
        return _unprintable_problem([*value, *value.values()], where)
    return _wrong_type(field, value, where)


def _read_list(field: Field, value: Any, where: str) -> tuple[Any, Problem | None]:
    if field.kind is Kind.IPU_SELECTION and type(value) is int:
        return value, _range_problem(field, value, where)
    item_type = str if field.kind is Kind.TEXT_LIST else int
    if not isinstance(value, list | tuple) or any(
        type(item) is not item_type for item in value
    ):
        return value, _wrong_type(field, value, where)
    items = list(value)
    if item_type is str and not field.choices:
        return items, _unprintable_problem(items, where)
    for item in items:
        if item_type is int:
            problem = _range_problem(field, item, where)
        elif problem := _choice_problem(field, item, where):
            # No single choice can take the place of the list.
            problem = replace(problem, suggestion=None)
        if problem:
            return items, problem
    return items, None


def _unprintable_problem(texts: Iterable[str], where: str) -> Problem | None:
    if all(map(is_plain, texts)):
        return None
    return Problem(where, "holds a control character", "use signs that can be seen")


def _limit(limit: float | None) -> str:
    if limit is None:
        return ""
    return str(int(limit)) if limit == int(limit) else str(limit)


def _shown(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    text = {"True": "true", "False": "false", "None": "nothing"}.get(text, text)
    return text if len(text) <= 60 else f"{text[:57]}..."


def value_text(value: Any) -> str:
    """Return a value as one types it after `--set path=`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f'{key} = "{item}"' for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    return str(value)
