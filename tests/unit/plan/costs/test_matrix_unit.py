"""The fast search finds what an exhaustive one finds, and memory limits bind."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipu_runtime.plan.costs.matrix_unit import MatrixMode, MatrixShape, plan_pass

TILES = 24
MODES = {
    "fp32": MatrixMode(8, 16, 8, 4, 4, TILES, 638976),
    "fp16": MatrixMode(16, 8, 4, 2, 4, TILES, 638976),
    "fp16 half partials": MatrixMode(16, 16, 4, 2, 2, TILES, 638976),
}


def exhaustive_cost(shape: MatrixShape, mode: MatrixMode, limit: float) -> float:
    """Try every split of every factor, straight from the formulas."""
    channels, taps = shape.channels_in, shape.taps
    halo = 1.0 if taps == 1 else 1.3 if taps <= 9 else 1.4 if taps <= 25 else 1.5
    fold = min(taps, mode.block_in // channels) if channels < mode.block_in else 1
    if taps > 1 and fold > 1:
        channels, taps, halo = channels * fold, math.ceil(taps / fold), 1.0
    ins = math.ceil(channels / mode.block_in)
    outs = math.ceil(shape.channels_out / mode.block_out)
    best = math.inf
    extents = (shape.groups, outs, ins, taps, shape.positions)
    ranges = [range(1, min(extent, TILES) + 1) for extent in extents]
    for pg, po, pi, pk, ps in itertools.product(*ranges):
        if pg * po * pi * pk * ps > TILES:
            continue
        g, go, gi = (
            math.ceil(shape.groups / pg),
            math.ceil(outs / po),
            math.ceil(ins / pi),
        )
        k, e = math.ceil(taps / pk), math.ceil(shape.positions / ps)
        ci = min(gi * mode.block_in, channels)
        co = min(go * mode.block_out, shape.channels_out)
        values, parts = g * e * ci * mode.value_bytes * halo, g * e * co
        weights = g * k * ci * co * mode.value_bytes
        if values + weights + parts * mode.partial_bytes > limit:
            continue
        start, block = 120, 46 + 6 * 30
        if taps == 1 and mode.value_bytes == 2:
            # The vertex for one tap loads its block of weights by 8 bytes a cycle.
            start, block = 110, 25 + mode.block_in * mode.block_out * 2 / 8 + 6 * 19
        cost = start + g * gi * go * k * (block + 6 * mode.cycles * math.ceil(e / 6))
        cost += values / (4 * (2 if po % 2 == 0 else 1)) + weights / 4
        if pi * pk > 1:
            cost += parts * mode.partial_bytes / 4
            cost += 130 + parts / (2 if mode.partial_bytes == 4 else 4)
        best = min(best, cost)
    return best


shapes = st.builds(
    MatrixShape,
    st.integers(1, 200),
    st.integers(5, 80),
    st.integers(1, 80),
    st.sampled_from([1, 4, 9, 25, 49]),
    st.integers(1, 3),
)


@settings(max_examples=60)
@given(shape=shapes, mode=st.sampled_from(list(MODES.values())))
def test_search_finds_the_exhaustive_optimum(
    shape: MatrixShape, mode: MatrixMode
) -> None:
    found = plan_pass(shape, mode, 1.0)
    cost = found.compute + found.exchange + found.reduction
    assert cost == pytest.approx(exhaustive_cost(shape, mode, mode.tile_bytes))


def test_neighbours_that_share_inputs_are_worth_a_tile() -> None:
    shape, mode = MatrixShape(138, 150, 196), MODES["fp32"]
    found = plan_pass(shape, mode, 1.0)
    assert found.out_split % 2 == 0
    cost = found.compute + found.exchange + found.reduction
    assert cost == pytest.approx(exhaustive_cost(shape, mode, mode.tile_bytes))


@settings(max_examples=40)
@given(shape=shapes, proportion=st.floats(0.001, 0.05))
def test_search_within_a_tight_limit(shape: MatrixShape, proportion: float) -> None:
    mode = MODES["fp32"]
    wanted = exhaustive_cost(shape, mode, proportion * mode.tile_bytes)
    found = plan_pass(shape, mode, proportion)
    if math.isinf(wanted):
        assert found.serial > 1 or not found.within_limit
    else:
        assert found.serial == 1
        cost = found.compute + found.exchange + found.reduction
        assert cost == pytest.approx(wanted)


def test_less_memory_buys_serial_slower_plans() -> None:
    mode = MODES["fp32"]._replace(tiles=1472)
    shape = MatrixShape(20_000, 128, 128, 9)
    generous, tight = plan_pass(shape, mode, 0.6), plan_pass(shape, mode, 0.05)
    assert generous.serial == 1
    assert tight.serial > 1
    assert tight.temporary_bytes <= 0.05 * mode.tile_bytes < generous.temporary_bytes
    assert tight.work > generous.work
    assert tight.supersteps > generous.supersteps


def test_a_limit_that_nothing_fits_is_ignored() -> None:
    mode = MODES["fp32"]
    shape = MatrixShape(100_000, 256, 256, 9)
    found = plan_pass(shape, mode, 1e-6)
    assert not found.within_limit
    assert found.work == pytest.approx(plan_pass(shape, mode, 1e9).work)


def test_depthwise_uses_the_cheaper_vertex() -> None:
    mode = MODES["fp32"]._replace(tiles=1472)
    depthwise = plan_pass(MatrixShape(12_544, 1, 1, 9, groups=512), mode, 0.6)
    # On plain blocks each of the 512 groups would fill 1 of 16 output channels.
    plain = exhaustive_blocks(12_544, 512, taps=2, tiles=1472)
    assert depthwise.compute < plain


def exhaustive_blocks(positions: int, groups: int, taps: int, tiles: int) -> float:
    """Compute cycles if every group took blocks of its own, spread ideally."""
    per_tile = positions * groups / tiles
    return per_tile * taps * 8
