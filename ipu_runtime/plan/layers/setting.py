"""How the settings of layers are declared and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class SettingError(ValueError):
    """A value that a setting cannot take; the message says what would be valid."""


def _anything(value: Any) -> Any:
    return value


class Setting(NamedTuple):
    """One constructor argument of a layer, under Keras' own name."""

    read: Callable[[Any], Any] = _anything
    """Returns the value in one form, or raises SettingError."""
    default: Any = None
    required: bool = False
    help: str = ""


def positive_int(value: Any) -> int:
    """Read a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError("must be a whole number of at least 1")
    return value


def whole_number(value: Any) -> int:
    """Read any whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingError("must be a whole number")
    return value


def truth(value: Any) -> bool:
    """Read a truth value."""
    if not isinstance(value, bool):
        raise SettingError("must be true or false")
    return value


def number(value: Any) -> float:
    """Read a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError("must be a number")
    return float(value)


def share(value: Any) -> float:
    """Read a number from 0 to 1."""
    read = number(value)
    if not 0 <= read <= 1:
        raise SettingError("must be from 0 to 1")
    return read


def pair(value: Any) -> tuple[int, int]:
    """Read one whole number for both directions, or two."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return positive_int(value[0]), positive_int(value[1])
    try:
        both = positive_int(value)
    except SettingError as error:
        raise SettingError("must be one or two whole numbers of at least 1") from error
    return both, both


def optional_pair(value: Any) -> tuple[int, int] | None:
    """Read a pair or nothing."""
    return None if value is None else pair(value)


def optional_positive_int(value: Any) -> int | None:
    """Read a whole number of at least 1, or nothing."""
    return None if value is None else positive_int(value)


def sizes(value: Any) -> tuple[int, ...]:
    """Read a shape without the batch dimension."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    if not isinstance(value, list | tuple):
        raise SettingError("must be a list of whole numbers")
    return tuple(whole_number(extent) for extent in value)


def axes(value: Any) -> tuple[int, ...]:
    """Read one axis or several."""
    return sizes(value)


def one_of(*choices: str) -> Callable[[Any], str]:
    """Make a reader that takes some words, in any case."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in choices:
            raise SettingError(f"must be one of {', '.join(choices)}")
        return value.lower()

    return read


def channels_last(value: Any) -> str:
    """Read the data format; only Keras' default is modelled."""
    if value not in (None, "channels_last"):
        raise SettingError("only channels_last is modelled")
    return "channels_last"


REQUIRED_INT = Setting(positive_int, required=True)
DATA_FORMAT = Setting(channels_last, "channels_last")

_WITHOUT_EFFECT = (
    "name",
    "dtype",
    "trainable",
    "seed",
    "kernel_initializer",
    "bias_initializer",
    "depthwise_initializer",
    "recurrent_initializer",
    "embeddings_initializer",
    "beta_initializer",
    "gamma_initializer",
    "moving_mean_initializer",
    "moving_variance_initializer",
    "kernel_regularizer",
    "bias_regularizer",
    "depthwise_regularizer",
    "recurrent_regularizer",
    "embeddings_regularizer",
    "activity_regularizer",
    "beta_regularizer",
    "gamma_regularizer",
    "kernel_constraint",
    "bias_constraint",
    "depthwise_constraint",
    "recurrent_constraint",
    "embeddings_constraint",
    "beta_constraint",
    "gamma_constraint",
)

FREE_SETTINGS = {name: Setting() for name in _WITHOUT_EFFECT}
"""Settings that Keras takes and the cost model has no use for."""
