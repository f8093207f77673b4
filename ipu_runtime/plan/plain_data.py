"""Whatever is written as JSON, in JSON's own types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as lists, dictionaries, numbers and texts.

    Dataclasses become dictionaries, members of enumerations their values, and numbers
    that are not finite null.
    """
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if value is None or kind in (str, int, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    # Scalars of NumPy and TensorFlow.
    return plain(value.item()) if hasattr(value, "item") else str(value)
