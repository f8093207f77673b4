"""What single operations cost: the named parts that every figure is a sum of."""

from __future__ import annotations

import functools
from typing import NamedTuple

from ipu_runtime.plan.costs.matrix_unit import (
    MatrixMode,
    MatrixPlan,
    MatrixShape,
    plan_pass,
)

_EXCHANGE_BYTES = 4
"""A tile receives four bytes per cycle."""
_REDUCTION_TILES = 32
_RESULTS_PER_TILE = 64


class OpCost(NamedTuple):
    """One operation on one micro-batch, in cycles."""

    name: str
    compute: float
    exchange: float
    supersteps: int
    code: str = "elementwise"
    """Class of `[code]` in hardware.toml."""
    shape: tuple[int, ...] = ()
    """What makes its code differ from that of another operation of the same name."""
    temporary_bytes: int = 0
    """On one tile, while it runs."""
    plan: MatrixPlan | None = None

    @property
    def work(self) -> float:
        """Cycles without the fixed cost of its supersteps."""
        return self.compute + self.exchange


class Pass(NamedTuple):
    """Constants of one evaluation of an elementwise vertex."""

    start: int
    worker: int
    per_vector: int


ADD = Pass(11, 20, 2)
OTHER = Pass(11, 20, 6)
SELECT = Pass(11, 20, 3)
DROPOUT = Pass(6, 24, 2)
POOL = Pass(13, 90, 3)
POOL_GRADIENT = Pass(13, 90, 5)
NORM = Pass(11, 20, 3)
NORM_GRADIENT = Pass(11, 20, 4)
ACTIVATION_GRADIENT = Pass(9, 20, 3)
UPDATE = Pass(60, 24, 3)


class Costing(NamedTuple):
    """Everything about the device and the options that the cost of an op depends on."""

    tiles: int
    """That compute; tiles reserved for input and output are not among them."""
    tile_bytes: int
    macs_fp16_partials_fp16: int
    macs_fp32: int
    half: bool
    conv_half_partials: bool = False
    conv_proportion: float = 0.6
    matmul_half_partials: bool = False
    matmul_proportion: float = 0.6
    stable_norms: bool = False
    training: bool = True

    @property
    def value_bytes(self) -> int:
        """Bytes of one value of the model's type."""
        return 2 if self.half else 4

    def passes(
        self,
        name: str,
        total: int,
        kind: Pass,
        *,
        count: int = 1,
        supersteps: int = 1,
        moves: int = 0,
        code: str = "elementwise",
    ) -> OpCost:
        """Cost an elementwise op of some passes that also moves its tensor."""
        values = -(-total // self.tiles)
        vectors = -(-values // (12 if not self.half else 24))
        cycles = kind.start + 6 * (kind.worker + vectors * kind.per_vector)
        exchange = moves * total * self.value_bytes / self.tiles / _EXCHANGE_BYTES
        return OpCost(name, count * cycles, exchange, supersteps, code, (total,))

    def reduction(
        self,
        name: str,
        total: int,
        results: int,
        *,
        supersteps: int = 2,
        layout: bool = False,
    ) -> OpCost:
        """Cost the reduction of a whole tensor to some results, in two stages."""
        per_cycle = 8 if self.half else 4
        values = -(-total // self.tiles)
        partials = self.tiles / _REDUCTION_TILES
        compute = (173 + values / per_cycle) + (173 + partials / per_cycle)
        moved = partials + min(results, _RESULTS_PER_TILE) + (values if layout else 0)
        exchange = moved * self.value_bytes / _EXCHANGE_BYTES
        return OpCost(
            name, compute, exchange, supersteps, "elementwise", (total, results)
        )

    def convolution(
        self, name: str, shape: MatrixShape, *, extra_supersteps: int = 0
    ) -> OpCost:
        """Cost one pass of a convolution."""
        mode = self._mode(self.conv_half_partials)
        plan = plan_pass(shape, mode, self.conv_proportion)
        return _matrix_op(name, "conv", shape, plan, extra_supersteps)

    def matmul(
        self, name: str, shape: MatrixShape, *, extra_supersteps: int = 0
    ) -> OpCost:
        """Cost one matmul; groups are the matrices of a batched one."""
        mode = self._mode(self.matmul_half_partials)
        plan = plan_pass(shape, mode, self.matmul_proportion)
        code = "matmul" if shape.groups == 1 else "batched_matmul"
        return _matrix_op(name, code, shape, plan, extra_supersteps)

    def weight_gradient_of_convolution(self, name: str, shape: MatrixShape) -> OpCost:
        """Cost the matmul over all positions that gives a kernel's gradient."""
        turned = MatrixShape(
            positions=shape.channels_in * shape.taps,
            channels_in=shape.positions,
            channels_out=shape.channels_out,
            groups=shape.groups,
        )
        return self.convolution(name, turned, extra_supersteps=2)

    def _mode(self, half_partials: bool) -> MatrixMode:
        return _mode(
            self.half,
            half_partials and self.macs_fp16_partials_fp16 == 64,
            self.macs_fp32,
            self.tiles,
            self.tile_bytes,
        )


@functools.lru_cache(maxsize=64)
def _mode(
    half: bool, half_partials: bool, macs_fp32: int, tiles: int, tile_bytes: int
) -> MatrixMode:
    if half:
        block_out, partial_bytes = (16, 2) if half_partials else (8, 4)
        return MatrixMode(16, block_out, 4, 2, partial_bytes, tiles, tile_bytes)
    # fp32 takes 8 cycles for a block, so the rate decides how wide the block is.
    return MatrixMode(8, macs_fp32, 8, 4, 4, tiles, tile_bytes)


def _matrix_op(
    name: str, code: str, shape: MatrixShape, plan: MatrixPlan, extra_supersteps: int
) -> OpCost:
    return OpCost(
        name,
        plan.compute + plan.reduction,
        plan.exchange + plan.rearrangement,
        plan.supersteps + extra_supersteps,
        code,
        shape,
        plan.temporary_bytes,
        plan,
    )
