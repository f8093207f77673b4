"""How far off a plan may be, as text and as plain data."""

from __future__ import annotations

from typing import Any

from ipu_runtime.plan.band import FIGURES, PlanBand
from ipu_runtime.plan.quantities import count, microseconds, share
from workbench.views.text_table import table_lines

_SHOWN = {
    "ipu_us_per_batch": ("per batch", microseconds),
    "samples_per_second": ("samples/s", count),
    "memory_fraction": ("memory", share),
}


def band_lines(band: PlanBand) -> list[str]:
    """Return every main figure with what it may be, and what that comes from."""
    rows = []
    for name, (title, shown) in _SHOWN.items():
        figure = FIGURES[name]
        limits = band.of(figure)
        values = (figure(band.plan), limits.low, limits.high)
        rows.append([title, *map(shown, values)])
    lines = table_lines(("", "modelled", "from", "to"), rows)
    moved = [
        f"{title} is moved by {_moved(band, name)}"
        for title, name in (("time", "ipu_us_per_batch"), ("memory", "memory_fraction"))
    ]
    held = band.coverage_of(FIGURES["ipu_us_per_batch"])
    often = f"{share(held)} of published throughputs lie in it" if held else "not known"
    coverage = (
        f"time: {band.width:.3g} times the stated errors ({often})",
        "memory: the stated errors alone (too little is published to say more)",
        "ipu-workbench validate shows how often bands hold",
    )
    return [
        "How far off it may be",
        *(f"  {line}" for line in (*lines, *moved, *coverage)),
    ]


def band_row(band: PlanBand) -> dict[str, Any]:
    """Return what `plan --band --json` adds."""
    content: dict[str, Any] = {}
    for name, figure in FIGURES.items():
        limits = band.of(figure)
        content[name] = {
            "low": limits.low,
            "high": limits.high,
            "sources": band.shares(figure),
            "coverage": band.coverage_of(figure),
        }
    return content


def _moved(band: PlanBand, name: str) -> str:
    """Return which sources move a figure, the largest first."""
    shares = sorted(band.shares(FIGURES[name]).items(), key=lambda item: -item[1])
    return ", ".join(f"{source} {share(by)}" for source, by in shares) or "nothing"
