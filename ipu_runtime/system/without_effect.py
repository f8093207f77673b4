"""Say once which arguments a script gives in vain."""

from __future__ import annotations

import logging
from typing import Any

# TensorFlow's own logger by name, so that warnings look like TensorFlow's without
# loading it.
logger = logging.getLogger("tensorflow")

_told: set[tuple[str, str]] = set()


def warn_without_effect(owner: str, **arguments: tuple[Any, Any]) -> None:
    """Warn of arguments, each with its default, that do nothing here if given."""
    for name, (value, default) in arguments.items():
        if value != default and (owner, name) not in _told:
            _told.add((owner, name))
            logger.warning(
                "%s: %s=%r has no effect in the emulator", owner, name, value
            )
