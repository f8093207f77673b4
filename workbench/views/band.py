"""How far off a plan may be, as a section and as plain data."""

from __future__ import annotations

from typing import Any

from ipu_runtime.plan.band import FIGURES, PlanBand
from ipu_runtime.plan.quantities import count, microseconds, share
from ipu_runtime.reports.document import Column, Note, Row, Section, Table

_SHOWN = {
    "ipu_us_per_batch": ("per batch", microseconds),
    "samples_per_second": ("samples/s", count),
    "memory_fraction": ("memory", share),
}


def band_section(band: PlanBand) -> Section:
    """Return every main figure with what it may be, and what that comes from."""
    rows = []
    for name, (title, shown) in _SHOWN.items():
        figure = FIGURES[name]
        limits = band.of(figure)
        values = (figure(band.plan), limits.low, limits.high)
        rows.append(Row((title, *map(shown, values))))
    titles = "modelled", "from", "to"
    columns = (Column(), *(Column(title, right=True) for title in titles))
    held = band.coverage_of(FIGURES["ipu_us_per_batch"])
    often = f"{share(held)} of published throughputs lie in it" if held else "not known"
    notes = (
        f"time is moved by {_moved(band, 'ipu_us_per_batch')}",
        f"memory is moved by {_moved(band, 'memory_fraction')}",
        f"time: {band.width:.3g} times the stated errors ({often})",
        "memory: the stated errors alone (too little is published to say more)",
        "ipu-workbench validate shows how often bands hold",
    )
    told = tuple(Note(text, hanging=2) for text in notes)
    table = Table(columns, tuple(rows))
    return Section("How far off it may be", (table, *told))


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
