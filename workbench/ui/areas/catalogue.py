"""Which areas there are, each loaded when it is first shown."""

from __future__ import annotations

from importlib import import_module

from workbench.ui.areas.area import Area

AREAS: tuple[tuple[str, str], ...] = (
    ("start", "Presets"),
    ("configure", "Configure"),
    ("stages", "Stages"),
    ("run", "Run"),
    ("compare", "Compare"),
    ("report", "Report"),
    ("script", "Script"),
)
"""Name and title, in the order of the number keys."""


def build_area(name: str) -> Area:
    """Return a new area; loading it late keeps the first frame fast."""
    module = import_module(f"workbench.ui.areas.{name}")
    area: Area = getattr(module, f"{name.capitalize()}Area")(id=f"area-{name}")
    return area
