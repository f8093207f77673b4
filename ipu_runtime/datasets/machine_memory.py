"""How much data this machine can hold."""

from __future__ import annotations

import os


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
