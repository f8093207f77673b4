"""How much of the tiles the program itself takes."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ipu_runtime.plan.costs.layer_costs import LayerWork, cost_layers
from ipu_runtime.plan.costs.op_costs import Costing, OpCost
from ipu_runtime.plan.hardware import HardwareTable

_CONV_PLAN_BYTES = 250
_CONV_MOST_BYTES = 12_000
MATRIX_CODES = ("conv", "matmul", "batched_matmul")


class StageCode(NamedTuple):
    """The program of one stage."""

    code_bytes: int
    plans: int
    """Distinct plans of the matrix unit, or all of them without outlining."""
    supersteps: int
    convolves: bool
    """Whether it has convolutions, which spread less evenly than matmuls."""


def code_key(op: OpCost) -> tuple[str, str, tuple[int, ...]]:
    """Return what operations have in common that share their code.

    Passes of the matrix unit are alike if their shapes are, whatever they compute.
    """
    return op.code, "" if op.code in MATRIX_CODES else op.name, op.shape


def conv_vertex_bytes(
    plans: np.float64 | NDArray[np.float64], table: HardwareTable
) -> np.float64 | NDArray[np.float64]:
    """Return what the vertices of so many plans of convolutions take of a tile."""
    base = table.code["conv"].vertex_bytes_per_tile
    grown = np.minimum(base + _CONV_PLAN_BYTES * plans, _CONV_MOST_BYTES)
    return np.where(plans > 0, grown, 0.0)


def program_code(
    ops: Iterable[tuple[OpCost, int]],
    cost: Costing,
    table: HardwareTable,
    *,
    outlining: bool = True,
) -> StageCode:
    """Add up state, exchange and control code of operations that share an IPU.

    Each comes with how often it is there.
    """
    distinct: set[tuple[str, str, tuple[int, ...]]] = set()
    again = 0.0 if outlining else table.values["repeated_exchange"]
    total = 0.0
    supersteps = instances = 0
    for op, times in ops:
        key = code_key(op)
        size = table.code[op.code]
        total += times * size.control
        supersteps += times * op.supersteps
        instances += times * (op.code in MATRIX_CODES)
        if not outlining:
            total += times * (size.state + again * size.exchange)
        if key not in distinct:
            total += (1 - again) * size.exchange + (size.state if outlining else 0)
        distinct.add(key)
    codes = Counter(code for code, _, _ in distinct)
    plans = sum(codes[code] for code in MATRIX_CODES)
    vertices: float = sum(
        table.code[code].vertex_bytes_per_tile
        for code in codes
        if code not in ("conv", "batched_matmul")
    )
    if "batched_matmul" in codes and "matmul" not in codes:
        vertices += table.code["batched_matmul"].vertex_bytes_per_tile
    vertices *= table.values["training_vertices"] if cost.training else 1.0
    if "conv" in codes:
        vertices += float(conv_vertex_bytes(np.float64(codes["conv"]), table))
    values = table.values
    per_tile = (
        vertices + values["stack_bytes_per_tile"] + values["runtime_bytes_per_tile"]
    )
    return StageCode(
        int(total + per_tile * cost.tiles),
        plans if outlining else instances,
        supersteps,
        "conv" in codes,
    )


@functools.lru_cache(maxsize=512)
def ipu_code(
    work: LayerWork,
    stage_of_layer: tuple[int, ...],
    stages: frozenset[int],
    accumulates: bool,
    infeed: OpCost | None,
    table: HardwareTable,
    outlining: bool,
) -> StageCode:
    """Return the program of an IPU that has some stages."""
    by_stage = _stage_ops(work, stage_of_layer, accumulates)
    ops = [(infeed, 1)] if infeed is not None else []
    for stage in sorted(stages):
        ops += by_stage[stage]
    return program_code(ops, work.cost, table, outlining=outlining)


@functools.lru_cache(maxsize=8)
def _stage_ops(
    work: LayerWork, stage_of_layer: tuple[int, ...], accumulates: bool
) -> tuple[list[tuple[OpCost, int]], ...]:
    """Return the operations of every stage; those of layers alike once, with counts."""
    layers = [Counter[int]() for _ in range(max(stage_of_layer) + 1)]
    costs = cost_layers(work)
    for own, stage in zip(costs, stage_of_layer, strict=True):
        layers[stage][own.alike] += 1
    first = {own.alike: own for own in reversed(costs)}
    ops_of = {
        alike: own.forward
        + own.backward
        + own.update
        + (own.accumulate if accumulates else ())
        for alike, own in first.items()
    }
    return tuple(
        [(op, times) for alike, times in counted.items() for op in ops_of[alike]]
        for counted in layers
    )
