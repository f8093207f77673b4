"""Whether bands keep to the coverage that they state, for rows they are not made from.

The width of a band comes from rows (split conformal prediction): that of the row at
rank ceil(coverage x (rows + 1)), ordered by the width at which each row's band just
reaches what was published. If a further row is like those, it lies in its band with at
least the stated probability. To show it, every row is left out once: the width comes
from the others, and the row lies in its band of that width or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ipu_runtime.plan.band import Band
from workbench.published.throughput_rows import (
    THROUGHPUT,
    ThroughputRow,
    throughput_rows,
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row with the band that others make for it."""

    row: ThroughputRow
    band: Band

    @property
    def held(self) -> bool:
        """Whether what was published lies in it."""
        return self.band.holds(self.row.published)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What bands state, and what rows show."""

    stated: float
    """Share of rows that are to lie in bands."""
    width: float
    """That `plan --band` uses, as a factor of the stated errors."""
    width_of_rows: float
    """That all rows together ask for."""
    rows: Mapping[str, LeftOut]
    """By name, each with the band of all other rows."""
    other_models_hold: int
    """Rows in the band that is made without any row of their model."""

    @property
    def held(self) -> int:
        """Rows in the band that is made without them."""
        return sum(row.held for row in self.rows.values())

    @property
    def in_band(self) -> int:
        """Rows in the band that `plan --band` shows."""
        rows = [left_out.row for left_out in self.rows.values()]
        return sum(row.band.holds(row.published) for row in rows)

    @property
    def share(self) -> float:
        """The coverage that rows show."""
        return self.held / len(self.rows)


@lru_cache(maxsize=1)
def band_coverage() -> Coverage:
    """Leave every published throughput out once."""
    rows = list(throughput_rows().values())
    stated, width = rows[0].plan_band.coverage, rows[0].plan_band.width

    def without(left_out: ThroughputRow, others: Iterable[ThroughputRow]) -> LeftOut:
        width = width_of([_width(other) for other in others], stated)
        return LeftOut(left_out, left_out.plan_band.of(THROUGHPUT, width))

    return Coverage(
        stated,
        width,
        width_of([_width(row) for row in rows], stated),
        {row.name: without(row, (x for x in rows if x is not row)) for row in rows},
        sum(
            without(row, (x for x in rows if x.title != row.title)).held for row in rows
        ),
    )


def _width(row: ThroughputRow) -> float:
    """Return the width at which the band of a row just reaches what was published."""
    return row.plan_band.width_for(THROUGHPUT, row.published)


def width_of(widths: Sequence[float], coverage: float) -> float:
    """Return the width with which a further row lies in its band so often.

    It is infinite for rows that are too few to say so.
    """
    # Rounded, because 0.9 x 10 is a little more than 9 for a computer.
    rank = math.ceil(round(coverage * (len(widths) + 1), 9))
    return sorted(widths)[rank - 1] if rank <= len(widths) else math.inf
