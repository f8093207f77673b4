"""Published figures beside modelled ones as cells, for the terminal and the docs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ipu_runtime.plan.quantities import microseconds, share
from workbench.published.band_coverage import Coverage, LeftOut, band_coverage
from workbench.published.cycle_rows import cycle_rows
from workbench.published.fitted_figures import fitted_figures
from workbench.published.memory_rows import PARTS, MemoryRow, memory_rows
from workbench.published.published_figure import PublishedFigure, source_number
from workbench.published.throughput_rows import ratios


class Table(NamedTuple):
    """Headings and the cells below them."""

    headings: tuple[str, ...]
    rows: list[list[str]]


def throughput_table() -> Table:
    """Return every throughput, with the band that is made without it."""
    headings = (
        "model",
        "system",
        "framework",
        "batch",
        "published",
        "modelled",
        "error",
        "from",
        "to",
        "held",
        "fullest tile",
        "source",
    )
    return Table(headings, [_throughput(row) for row in band_coverage().rows.values()])


def ratio_table() -> Table:
    """Return how rows compare with others."""
    return Table(
        ("ratio", "published", "modelled", "error"),
        [
            [
                ratio.title,
                f"{ratio.published:.2f}",
                f"{ratio.modelled:.2f}",
                error_text(ratio),
            ]
            for ratio in ratios()
        ],
    )


def memory_table() -> Table:
    """Return every figure of memory; what only had to fit has no error, or is held."""
    headings = ("model", "what", "published", "modelled", "error", "held", "source")
    return Table(headings, [_memory(row) for row in memory_rows().values()])


def cycle_table() -> Table:
    """Return the curve of the matrix unit."""
    return Table(
        ("positions", "published", "modelled", "error"),
        [
            [
                row.title,
                f"{row.published:,.0f}",
                f"{row.modelled:,.0f}",
                error_text(row, digits=1),
            ]
            for row in cycle_rows()
        ],
    )


def fitted_table() -> Table:
    """Return what constants were fitted to."""
    return Table(
        ("figure", "tutorial prints", "modelled", "error"),
        [
            [
                row.title,
                _time(row.published, row.unit),
                _time(row.modelled, row.unit),
                error_text(row, digits=1),
            ]
            for row in fitted_figures()
        ],
    )


def error_text(figure: PublishedFigure, digits: int = 0) -> str:
    """Return by what share the model is off, with its sign."""
    # What is rounded to nothing has no sign of its own: -0.0 + 0.0 is 0.0.
    return f"{round(figure.error * 100, digits) + 0.0:+.{digits}f} %"


def throughput_words() -> str:
    """Return what the rows come to."""
    rows = [left_out.row for left_out in band_coverage().rows.values()]
    largest = max(rows, key=lambda row: abs(row.error))
    fitting = sum(row.plan.ok for row in rows)
    typical = f"{root_mean_square(rows) * 100:.1f} %"
    return (
        f"{len(rows)} rows: {typical} off (root mean square), at most "
        f"{share(abs(largest.error))} ({largest.title}, {largest.framework}, on "
        f"{largest.system}). {fitting} of them fit the modelled memory; on the real "
        "systems all did."
    )


def coverage_words(found: Coverage) -> str:
    """Return whether bands keep to the coverage that they state."""
    number = len(found.rows)
    return (
        f"Each row stands beside the band that the other {number - 1} make. "
        f"{found.held} of {number} lie in it: {share(found.share)}, where "
        f"{share(found.stated)} is stated. With all rows of the same model left out, "
        f"{found.other_models_hold} lie in theirs. All rows together ask for "
        f"{found.width_of_rows:.3g} times the stated errors; plan --band takes "
        f"{found.width:.3g} times, which holds {found.in_band}. Rows of one model are "
        "alike, and less evidence than their number says."
    )


def memory_words() -> str:
    """Return why there is no coverage of memory."""
    rows = [row for row in memory_rows().values() if not row.is_limit]
    held = sum(row.held for row in rows)
    return (
        f"{held} of {len(rows)} lie in the band of the stated errors: too few are "
        "published to widen it, so for memory no coverage is stated."
    )


def root_mean_square(rows: Sequence[PublishedFigure]) -> float:
    """Return by what share rows are off typically, as a factor either way."""
    squares = sum(math.log(1 + row.error) ** 2 for row in rows)
    return math.expm1(math.sqrt(squares / len(rows)))


def _throughput(left_out: LeftOut) -> list[str]:
    row, band = left_out.row, left_out.band
    return [
        row.title,
        row.system,
        row.framework,
        row.batch,
        f"{row.published:,.0f}",
        f"{row.modelled:,.0f}",
        error_text(row),
        f"{band.low:,.0f}",
        f"{band.high:,.0f}",
        "yes" if left_out.held else "no",
        share(row.plan.memory_fraction),
        str(source_number(row.source)),
    ]


def _memory(row: MemoryRow) -> list[str]:
    return [
        row.title,
        PARTS[row.part],
        f"{row.published:,}",
        f"{row.modelled:,}",
        "" if row.is_limit else error_text(row),
        "yes" if row.held else "no",
        str(source_number(row.source)),
    ]


def _time(value: float, unit: str) -> str:
    return microseconds(value) if unit == "us" else f"{value:.3g} s"
