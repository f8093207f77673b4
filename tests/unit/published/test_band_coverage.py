"""Bands keep to the coverage that they state, for rows they are not made from."""

from __future__ import annotations

import math
import random

import pytest

from ipu_runtime.plan.hardware import load_table
from workbench.published.band_coverage import band_coverage, width_of
from workbench.published.throughput_rows import THROUGHPUT, throughput_rows


def test_rows_that_are_left_out_lie_in_their_bands_as_often_as_stated() -> None:
    found = band_coverage()
    assert found.rows.keys() == throughput_rows().keys()
    assert found.share >= found.stated == 0.9
    assert found.other_models_hold >= found.stated * len(found.rows)


def test_the_band_of_a_row_has_no_use_of_it() -> None:
    rows = throughput_rows()
    left_out = band_coverage().rows["predictions-4"]
    widths = sorted(
        row.plan_band.width_for(THROUGHPUT, row.published)
        for name, row in rows.items()
        if name != "predictions-4"
    )
    # 28 of 30: 0.9 x 31 rows, rounded up.
    band = rows["predictions-4"].plan_band.of(THROUGHPUT, widths[27])
    assert left_out.band == band
    assert not left_out.held


def test_bands_of_plans_are_as_wide_as_all_rows_ask() -> None:
    # Whatever changes the model changes this; hardware.toml says where it is from.
    found, values = band_coverage(), load_table().values
    assert found.width_of_rows <= found.width <= found.width_of_rows + 0.01
    assert (found.width, found.stated) == (
        values["band_width"],
        values["band_coverage"],
    )


@pytest.mark.parametrize(
    ("rows", "coverage", "rank"),
    [(9, 0.9, 9), (10, 0.9, 10), (19, 0.9, 18), (4, 0.8, 4)],
)
def test_the_width_is_that_of_a_rank(rows: int, coverage: float, rank: int) -> None:
    widths = [float(value) for value in range(rows, 0, -1)]
    assert width_of(widths, coverage) == rank


def test_few_rows_say_nothing() -> None:
    assert width_of([1.0] * 8, 0.9) == math.inf
    assert width_of([], 0.5) == math.inf


def test_further_rows_of_the_same_kind_lie_in_the_band() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(2000):
        *widths, further = (abs(draw.gauss(0, 1)) for _ in range(32))
        held += further <= width_of(widths, 0.9)
    # 29 of 32 ranks, so 0.906; drawn 2,000 times it is 0.0065 off.
    assert held / 2000 == pytest.approx(29 / 32, abs=0.02)
