"""What was read with TensorFlow, kept so that plans need not load it again."""

from __future__ import annotations

import os
from pathlib import Path

from ipu_runtime.system.file_replacing import replace_file
from workbench.locations import models_cache_directory

_unwritten: dict[Path, bytes] = {}
"""What could not be written, for this process alone: reading it takes seconds."""


def keep(name: str, text: str) -> None:
    """Keep a text under a name that changes with what was read."""
    path = models_cache_directory() / name
    try:
        os.makedirs(path.parent, exist_ok=True)
        replace_file(path, text)
    except OSError:
        _unwritten[path] = text.encode()


def kept(name: str) -> bytes:
    """Return what was kept under a name; OSError if nothing is."""
    path = models_cache_directory() / name
    found = _unwritten.get(path)
    return path.read_bytes() if found is None else found
