"""Keeps what native libraries print off the screen.

TensorFlow writes to descriptors 1 and 2 from C++, past Python. So Textual gets
duplicates of them, and the originals lead to a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.runs.record_files import explained
from workbench.store_files import make_root, open_to_append


@contextmanager
def native_output_to(path: Path) -> Iterator[None]:
    """Send descriptors 1 and 2 to a file; the app writes to duplicates meanwhile."""
    with explained(path):
        make_root(path.parent)
        log = open_to_append(path, 0o600)
    saved = {name: getattr(sys, name) for name in ("__stdout__", "__stderr__")}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    duplicates = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    screens = {
        name: open(duplicates[descriptor], "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        for name, descriptor in (("__stdout__", 1), ("__stderr__", 2))
    }
    try:
        for name, screen in screens.items():
            setattr(sys, name, screen)
        for descriptor in duplicates:
            os.dup2(log.fileno(), descriptor)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for descriptor, duplicate in duplicates.items():
            os.dup2(duplicate, descriptor)
        for name, screen in screens.items():
            screen.flush()
            setattr(sys, name, saved[name])
        for descriptor in duplicates.values():
            os.close(descriptor)
        log.close()
