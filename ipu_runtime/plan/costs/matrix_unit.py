"""How a convolution or matmul is split over tiles, and what that costs."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_VERTEX_START = 120
_BLOCK_SUPERVISOR = 46
_BLOCK_WORKER = 30
_WORKERS = 6
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
    temporary_bytes: int

    @property
    def cost(self) -> float:
        return self.compute + self.exchange + self.reduction

    @property
    def reduces(self) -> bool:
        return self.parts[2] * self.parts[3] > 1


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
        temporary_bytes=split.temporary_bytes,
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
    """Splits, and what each leaves to a tile; many shapes have the same."""

    parts: tuple[NDArray[np.int64], ...]
    """Of groups, output channels, input channels and taps."""
    positions: NDArray[np.int64]
    """Tiles that are left for positions."""
    groups: NDArray[np.int64]
    blocks_in: NDArray[np.int64]
    blocks_out: NDArray[np.int64]
    taps: NDArray[np.int64]
    shared: NDArray[np.int64]
    """How many tiles take the same inputs at once."""
    reduces: NDArray[np.bool_]


@functools.lru_cache(maxsize=4096)
def _candidates(
    groups: int, out_blocks: int, in_blocks: int, taps: int, tiles: int
) -> _Candidates:
    """List all combinations of splits that have enough tiles."""
    axes = (
        _quotient_splits(groups, tiles, False),
        _quotient_splits(out_blocks, tiles, True),
        _quotient_splits(in_blocks, tiles, False),
        _quotient_splits(taps, tiles, False),
    )
    grid = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
    used = grid[0] * grid[1] * grid[2] * grid[3]
    enough = used <= tiles
    p_group, p_out, p_in, p_tap = (axis[enough] for axis in grid)
    return _Candidates(
        parts=(p_group, p_out, p_in, p_tap),
        positions=tiles // used[enough],
        groups=-(-groups // p_group),
        blocks_in=-(-in_blocks // p_in),
        blocks_out=-(-out_blocks // p_out),
        taps=-(-taps // p_tap),
        shared=np.where(p_out % 2 == 0, 2, 1),
        reduces=p_in * p_tap > 1,
    )


def _best_split(extents: _Extents, mode: MatrixMode, limit: float) -> _Split | None:
    """Evaluate all splits at once and return the cheapest within the memory limit."""
    in_blocks = -(-extents.channels_in // extents.block_in)
    out_blocks = -(-extents.channels_out // extents.block_out)
    splits = _candidates(
        extents.groups, out_blocks, in_blocks, extents.taps, mode.tiles
    )
    groups, taps = splits.groups, splits.taps
    blocks_in, blocks_out = splits.blocks_in, splits.blocks_out
    p_position = np.minimum(extents.positions, splits.positions)
    positions = -(-extents.positions // p_position)
    channels_in = np.minimum(blocks_in * extents.block_in, extents.channels_in)
    channels_out = np.minimum(blocks_out * extents.block_out, extents.channels_out)

    inputs = groups * positions * channels_in * mode.value_bytes * extents.halo
    weights = groups * taps * channels_in * channels_out * mode.value_bytes
    partials = groups * positions * channels_out
    partial_bytes = partials * mode.partial_bytes
    temporary = inputs + weights + 2 * partial_bytes

    per_block = _BLOCK_SUPERVISOR + _WORKERS * (
        _BLOCK_WORKER + mode.cycles * -(-positions // _WORKERS)
    )
    compute = _VERTEX_START + groups * blocks_in * blocks_out * taps * per_block
    exchange = inputs / (4 * splits.shared) + weights / 4
    exchange += splits.reduces * partial_bytes / 4
    reduced_per_cycle = 2 if mode.partial_bytes == 4 else 4
    reduction = splits.reduces * (_REDUCTION_START + partials / reduced_per_cycle)

    cost = np.where(temporary <= limit, compute + exchange + reduction, np.inf)
    at = int(np.argmin(cost))
    if not np.isfinite(cost[at]):
        return None
    return _Split(
        parts=(*(int(axis[at]) for axis in splits.parts), int(p_position[at])),
        positions_per_tile=int(positions[at]),
        compute=float(compute[at]),
        exchange=float(exchange[at]),
        reduction=float(reduction[at]),
        temporary_bytes=int(np.ceil(temporary[at])),
    )
