"""What the figures were measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path


def describe() -> dict[str, str]:
    """Return processor, memory and versions."""
    versions = {
        name: importlib.metadata.version(name)
        for name in ("tensorflow", "keras", "textual", "numpy")
    }
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **versions,
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
