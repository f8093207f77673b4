"""What `ipu-workbench validate --json` prints, an object for every row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipu_runtime.plan.band import Band
from workbench.published.band_coverage import LeftOut, band_coverage
from workbench.published.cycle_rows import cycle_rows
from workbench.published.fitted_figures import fitted_figures
from workbench.published.memory_rows import MemoryRow, memory_rows
from workbench.published.published_figure import PublishedFigure, published
from workbench.published.published_tables import root_mean_square
from workbench.published.throughput_rows import ratios


def validation_rows() -> Iterator[dict[str, Any]]:
    """Yield everything that is published beside the model, then what it comes to."""
    found = band_coverage()
    yield from map(_throughput, found.rows.values())
    yield from (_figure("ratio", row) for row in ratios())
    yield from map(_memory, memory_rows().values())
    yield from (_figure("cycles", row) for row in cycle_rows())
    yield from (_figure("fitted", row) for row in fitted_figures())
    yield from (
        {"event": "not_planned", "title": text} for text in published()["not_planned"]
    )
    rows = [left_out.row for left_out in found.rows.values()]
    yield {
        "event": "validated",
        "throughputs": len(rows),
        "root_mean_square": root_mean_square(rows),
        "largest_error": max(abs(row.error) for row in rows),
        "held": found.held,
        "coverage": found.share,
        "stated_coverage": found.stated,
        "held_without_their_model": found.other_models_hold,
        "held_in_band": found.in_band,
        "band_width": found.width,
        "band_width_of_rows": found.width_of_rows,
    }


def _figure(event: str, figure: PublishedFigure) -> dict[str, Any]:
    return {
        "event": event,
        "name": figure.name,
        "title": figure.title,
        "unit": figure.unit,
        "published": figure.published,
        "modelled": figure.modelled,
        "error": figure.error,
        "source": published()["sources"].get(figure.source, ""),
    }


def _throughput(left_out: LeftOut) -> dict[str, Any]:
    row = left_out.row
    return _figure("throughput", row) | {
        "system": row.system,
        "framework": row.framework,
        "batch": row.batch,
        "memory_fraction": row.plan.memory_fraction,
        "band": _limits(row.band),
        "band_without_it": _limits(left_out.band),
        "held": left_out.held,
    }


def _memory(row: MemoryRow) -> dict[str, Any]:
    own = {"part": row.part, "band": _limits(row.band), "held": row.held}
    error = {"error": None} if row.is_limit else {}
    return _figure("memory", row) | own | error


def _limits(band: Band) -> dict[str, float]:
    return {"low": band.low, "high": band.high}
