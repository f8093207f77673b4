"""Refuse settings that the device's layers do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def refuse(layer: str, settings: Mapping[str, Any]) -> None:
    """Raise for the first setting that is given a value."""
    for name, value in settings.items():
        if value:
            raise ValueError(
                f"{layer}: `{name}` is not supported on the IPU, but it is {value!r}; "
                "leave it out."
            )
