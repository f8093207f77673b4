"""How a convolution or matmul is split over tiles, and what that costs."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WORKERS = 6
# Vertices of poplibs, by `PerformanceEstimation.hpp` of poplin: `ConvPartialnx1`, and
# `ConvPartial1x1` for products and one tap. Each has a start, and for each block of
# weights a part of the supervisor and one of each worker. Weights are loaded by 64 bits
# a cycle, unless `use128BitConvUnitLoad` is set.
_VERTEX_START, _BLOCK_SUPERVISOR, _BLOCK_WORKER = 120, 46, 30
_TAP_VERTEX_START, _TAP_BLOCK_SUPERVISOR, _TAP_BLOCK_WORKER = 110, 25, 19
_LOADED_BYTES = 8
_REDUCTION_START = 130
_MOST_SERIAL = 64
PASS_SUPERSTEPS = 5


class MatrixShape(NamedTuple):
    """One pass; a matmul has one tap and a single group."""

    positions: int
    """Output positions over the batch."""
    channels_in: int
    """Per group."""
    channels_out: int
    """Per group."""
    taps: int = 1
    groups: int = 1


class MatrixMode(NamedTuple):
    """The matrix unit in one combination of types, on one device."""

    block_in: int
    block_out: int
    cycles: int
    """Per output position and block."""
    value_bytes: int
    partial_bytes: int
    tiles: int
    tile_bytes: int


class MatrixPlan(NamedTuple):
    """The cheapest split of one pass that fits the memory it may use."""

    groups_split: int
    out_split: int
    in_split: int
    taps_split: int
    positions_split: int
    positions_per_tile: int
    compute: float
    exchange: float
    reduction: float
    rearrangement: float
    temporary_bytes: int
    """On one tile, while the pass runs."""
    serial: int
    """Slices that run after each other to save memory."""
    supersteps: int
    within_limit: bool
    """False if no split fits availableMemoryProportion, which is then ignored."""

    @property
    def work(self) -> float:
        """Cycles without the fixed cost of supersteps."""
        return self.compute + self.exchange + self.reduction + self.rearrangement


class _Extents(NamedTuple):
    """The numbers that the split formulas use, folding already done."""

    positions: int
    channels_in: int
    channels_out: int
    taps: int
    groups: int
    halo: float
    block_in: int
    block_out: int


class _Split(NamedTuple):
    """The best split of some extents, with its cost."""

    parts: tuple[int, ...]
    positions_per_tile: int
    compute: float
    exchange: float
    reduction: float
    operand_bytes: float
    """On one tile: its copies of inputs and weights."""
    partial_bytes: float

    @property
    def cost(self) -> float:
        return self.compute + self.exchange + self.reduction

    @property
    def reduces(self) -> bool:
        return self.parts[2] * self.parts[3] > 1

    def temporary_bytes(self, *, in_result: bool) -> int:
        """Return what a tile needs besides the tensors that outlive the pass.

        Args:
            in_result: Whether partials that nothing reduces are the result itself.
        """
        in_result = in_result and not self.reduces
        return math.ceil(self.operand_bytes + (0 if in_result else self.partial_bytes))


@functools.lru_cache(maxsize=8192)
def plan_pass(
    shape: MatrixShape, mode: MatrixMode, proportion: float, *, foldable: bool = True
) -> MatrixPlan:
    """Plan one pass; small groups are tried on both kinds of vertex."""
    limit = proportion * mode.tile_bytes
    best = _plan(_folded(shape, mode, foldable), mode, limit)
    if shape.groups > 1 and shape.channels_in <= 4:
        packed = _plan(_packed(shape), mode, limit)
        if packed[1] < best[1]:
            best = packed
    split, _, serial, within_limit = best
    supersteps = PASS_SUPERSTEPS + split.reduces
    supersteps += (serial - 1) * (2 if split.reduces else 1)
    moved = shape.positions * (shape.channels_in + shape.channels_out)
    rearrangement = shape.groups * moved * mode.value_bytes / mode.tiles / 4
    groups, out, inner, taps, positions = split.parts
    return MatrixPlan(
        groups_split=groups,
        out_split=out,
        in_split=inner,
        taps_split=taps,
        positions_split=positions,
        positions_per_tile=split.positions_per_tile,
        compute=serial * split.compute,
        exchange=serial * split.exchange,
        reduction=serial * split.reduction,
        rearrangement=rearrangement,
        temporary_bytes=split.temporary_bytes(
            in_result=serial == 1 and mode.partial_bytes == mode.value_bytes
        ),
        serial=serial,
        supersteps=supersteps,
        within_limit=within_limit,
    )


def _folded(shape: MatrixShape, mode: MatrixMode, foldable: bool) -> _Extents:
    """Put taps in the place of missing input channels."""
    channels, taps, halo = shape.channels_in, shape.taps, _halo(shape.taps)
    if foldable and channels < mode.block_in and taps > 1:
        fold = min(taps, mode.block_in // channels)
        if fold > 1:
            channels, taps, halo = channels * fold, -(-taps // fold), 1.0
    return _Extents(
        shape.positions,
        channels,
        shape.channels_out,
        taps,
        shape.groups,
        halo,
        mode.block_in,
        mode.block_out,
    )


def _packed(shape: MatrixShape) -> _Extents:
    """Four groups, channels and taps share a block, as vertices for small groups do."""
    return _Extents(
        shape.positions,
        4 * shape.channels_in,
        4 * shape.channels_out,
        -(-shape.taps // 4),
        -(-shape.groups // 4),
        _halo(shape.taps),
        16,
        16,
    )


def _halo(taps: int) -> float:
    if taps == 1:
        return 1.0
    return 1.3 if taps <= 9 else 1.4 if taps <= 25 else 1.5


def _plan(
    extents: _Extents, mode: MatrixMode, limit: float
) -> tuple[_Split, float, int, bool]:
    """Return the split, its cost, its serial slices and whether it is within limit."""
    split = _best_split(extents, mode, limit)
    if split is not None:
        return split, split.cost, 1, True
    slices = 2
    while slices <= _MOST_SERIAL:
        candidates = []
        if extents.channels_out / slices >= extents.block_out:
            channels = -(-extents.channels_out // slices)
            candidates.append(extents._replace(channels_out=channels))
        candidates.append(extents._replace(positions=-(-extents.positions // slices)))
        found = [_best_split(candidate, mode, limit) for candidate in candidates]
        fitting = [candidate for candidate in found if candidate is not None]
        if fitting:
            split = min(fitting, key=lambda candidate: candidate.cost)
            return split, slices * split.cost, slices, True
        slices *= 2
    split = _best_split(extents, mode, float("inf"))
    assert split is not None
    return split, split.cost, 1, False


@functools.lru_cache(maxsize=4096)
def _quotient_splits(extent: int, most: int, even_too: bool) -> NDArray[np.int64]:
    """List the smallest split for every number of blocks that a tile can get."""
    parts = np.arange(1, min(extent, most) + 1)
    quotients = -(-extent // parts)
    kept = _first_of_each(quotients)
    if even_too:
        kept[1::2] |= _first_of_each(quotients[1::2])
    return parts[kept]


def _first_of_each(falling: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark where a falling sequence takes a new value."""
    # Not np.unique: it loads masked arrays, which takes longer than a plan.
    marks = np.ones(len(falling), dtype=bool)
    marks[1:] = falling[1:] != falling[:-1]
    return marks


class _Candidates(NamedTuple):
    """Splits, and what each leaves to a tile; many shapes have the same.

    All that does not depend on the exact extents is worked out here. Floats hold these
    whole numbers exactly and divide much faster.
    """

    parts: NDArray[np.int64]
    """Of groups, output channels, input channels and taps, each a row."""
    positions: NDArray[np.float64]
    """Tiles that are left for positions."""
    groups: NDArray[np.float64]
    channels_in: NDArray[np.float64]
    """That its blocks have room for."""
    channels_out: NDArray[np.float64]
    tap_bytes: NDArray[np.float64]
    """Of all weights between one input and one output channel."""
    start_cycles: NDArray[np.float64]
    """Of computing, besides those of positions."""
    position_cycles: NDArray[np.float64]
    """Per position of a worker."""
    input_cycles: NDArray[np.float64]
    """Per byte of input; neighbours take the same inputs at once."""
    moving_cycles: NDArray[np.float64]
    """Per partial result that is sent to be reduced."""
    adding_start: NDArray[np.float64]
    adding_cycles: NDArray[np.float64]
    """Per partial result that is reduced."""


@functools.lru_cache(maxsize=4096)
def _candidates(
    groups: int,
    blocks: tuple[int, int],
    block: tuple[int, int],
    taps: int,
    mode: MatrixMode,
) -> _Candidates:
    """List all combinations of splits that have enough tiles.

    Args:
        blocks: Of input and of output channels.
        block: Channels of one block, input and output.
    """
    axes = (
        _quotient_splits(groups, mode.tiles, False),
        _quotient_splits(blocks[1], mode.tiles, True),
        _quotient_splits(blocks[0], mode.tiles, False),
        _quotient_splits(taps, mode.tiles, False),
    )
    used = functools.reduce(np.multiply.outer, axes)
    enough = np.nonzero(used <= mode.tiles)
    parts = [axis[at] for axis, at in zip(axes, enough, strict=True)]
    p_group, p_out, p_in, p_tap = parts
    groups_left = np.ceil(groups / p_group)
    group_taps = groups_left * np.ceil(taps / p_tap)
    blocks_in, blocks_out = np.ceil(blocks[0] / p_in), np.ceil(blocks[1] / p_out)
    all_blocks = group_taps * blocks_in * blocks_out
    vertex_start, block_start = _vertex_cycles(mode, taps)
    reduces = (p_in * p_tap > 1).astype(np.float64)
    return _Candidates(
        parts=np.array(parts),
        positions=np.floor(mode.tiles / used[enough]),
        groups=groups_left,
        channels_in=blocks_in * block[0],
        channels_out=blocks_out * block[1],
        tap_bytes=group_taps * mode.value_bytes,
        start_cycles=vertex_start + all_blocks * block_start,
        position_cycles=all_blocks * (_WORKERS * mode.cycles),
        input_cycles=np.where(p_out % 2 == 0, 1 / 8, 1 / 4),
        moving_cycles=reduces * (mode.partial_bytes / 4),
        adding_start=reduces * _REDUCTION_START,
        adding_cycles=reduces / (2 if mode.partial_bytes == 4 else 4),
    )


def _vertex_cycles(mode: MatrixMode, taps: int) -> tuple[int, float]:
    """Return what a vertex takes at its start, and for a block besides positions.

    In single precision the vertex for one tap also sets partials to zero, by 8 cycles a
    position. Nobody has measured that, so it counts as the vertex for any taps.
    """
    if taps > 1 or mode.value_bytes > 2:
        return _VERTEX_START, _BLOCK_SUPERVISOR + _WORKERS * _BLOCK_WORKER
    loading = mode.block_in * mode.block_out * mode.value_bytes / _LOADED_BYTES
    workers = _WORKERS * _TAP_BLOCK_WORKER
    return _TAP_VERTEX_START, _TAP_BLOCK_SUPERVISOR + loading + workers


def _best_split(extents: _Extents, mode: MatrixMode, limit: float) -> _Split | None:
    """Evaluate all splits at once and return the cheapest within the memory limit."""
    in_blocks = -(-extents.channels_in // extents.block_in)
    out_blocks = -(-extents.channels_out // extents.block_out)
    block = extents.block_in, extents.block_out
    splits = _candidates(
        extents.groups, (in_blocks, out_blocks), block, extents.taps, mode
    )
    p_position = np.minimum(splits.positions, extents.positions)
    positions = np.ceil(extents.positions / p_position)
    channels_in = np.minimum(splits.channels_in, extents.channels_in)
    channels_out = np.minimum(splits.channels_out, extents.channels_out)

    group_positions = splits.groups * positions
    inputs = group_positions * channels_in * (mode.value_bytes * extents.halo)
    weights = splits.tap_bytes * channels_in * channels_out
    partials = group_positions * channels_out
    operands = inputs + weights
    partials_bytes = partials * mode.partial_bytes
    # What `addConvTempMemoryEstimate` of poplin holds against the proportion.
    planned = operands + partials_bytes

    worker_positions = np.ceil(positions / _WORKERS)
    compute = splits.start_cycles + splits.position_cycles * worker_positions
    exchange = inputs * splits.input_cycles + weights / 4
    exchange += splits.moving_cycles * partials
    reduction = splits.adding_start + splits.adding_cycles * partials

    cost = compute + exchange + reduction
    cost[planned > limit] = np.inf
    at = int(cost.argmin())
    if cost[at] == np.inf:
        return None
    return _Split(
        parts=(*splits.parts[:, at].tolist(), int(p_position[at])),
        positions_per_tile=int(positions[at]),
        compute=float(compute[at]),
        exchange=float(exchange[at]),
        reduction=float(reduction[at]),
        operand_bytes=float(operands[at]),
        partial_bytes=float(partials_bytes[at]),
    )
