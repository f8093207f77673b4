"""What operations cost, whether a layer's kind lists them or a graph was read."""

from __future__ import annotations

import math

from ipu_runtime.plan.costs.matrix_unit import MatrixShape
from ipu_runtime.plan.costs.op_costs import (
    ACTIVATION_GRADIENT,
    ADD,
    DROPOUT,
    NORM,
    NORM_GRADIENT,
    OTHER,
    POOL,
    POOL_GRADIENT,
    SELECT,
    Costing,
    OpCost,
    Pass,
)
from ipu_runtime.plan.model.operations import (
    Operation,
    OpKind,
    at_batch,
    values_at,
)

VECTOR_CYCLES = {"sigmoid": (10, 4), "tanh": (10, 2), "gelu": (10, 5)}
"""Cycles per vector in fp32 and fp16."""
SOFTMAXES = ("softmax", "log_softmax", "sparsemax")
_RELUS = ("relu", "relu6")


def cost_operation(op: Operation, batch: int, cost: Costing) -> OpCost:
    """Cost one operation; its code is there once, however often a loop runs it."""
    half = op.value_bytes <= 2 if op.value_bytes else cost.half
    # Most are of the model's type and in no loop; replacing takes as long as costing.
    own = cost if cost.half == half else cost._replace(half=half)
    once = _once(op, batch, own)
    times = at_batch(op.repeat, batch)
    if times == 1:
        return once
    return once._replace(
        compute=times * once.compute,
        exchange=times * once.exchange,
        supersteps=times * once.supersteps,
    )


def _once(op: Operation, batch: int, cost: Costing) -> OpCost:
    extents = tuple(at_batch(extent, batch) for extent in op.shape)
    extra = int(op.rearranged)
    match op.kind:
        case OpKind.MATMUL:
            return cost.matmul(op.name, MatrixShape(*extents))
        case OpKind.PRODUCT:
            rows, inner, columns, groups = extents
            shape = MatrixShape(rows, inner, columns, groups=groups)
            return cost.matmul(op.name, shape, extra_supersteps=extra)
        case OpKind.CONVOLUTION:
            return cost.convolution(op.name, MatrixShape(*extents[:5]))
        case OpKind.DATA_GRADIENT:
            shape = MatrixShape(*extents)
            return cost.convolution(op.name, shape, extra_supersteps=2)
        case OpKind.WEIGHT_GRADIENT:
            return cost.weight_gradient_of_convolution(op.name, MatrixShape(*extents))
        case OpKind.REDUCTION:
            return cost.reduction(
                op.name,
                extents[0],
                extents[1],
                supersteps=2 + extra,
                layout=op.rearranged,
            )
        case OpKind.NORM:
            # Stable statistics subtract the mean before they square: one pass more.
            more = int(cost.stable_norms)
            return _norm(op.name, extents, NORM, (3 + more, 2, 7 + more), cost)
        case OpKind.NORM_GRADIENT:
            return _norm(op.name, extents, NORM_GRADIENT, (4, 3, 9), cost)
        case OpKind.SORT:
            # A bitonic network over the axis, values exchanged at every stage.
            steps = math.ceil(math.log2(max(extents[1], 2)))
            return _stages(op.name, extents[0], steps * (steps + 1) // 2, cost)
        case OpKind.SCAN:
            steps = math.ceil(math.log2(max(extents[1], 2)))
            return _stages(op.name, extents[0], steps, cost)
        case OpKind.BIAS | OpKind.COPY:
            moves = int(op.kind is OpKind.COPY)
            return cost.passes(op.name, extents[0], ADD, moves=moves)
    return _walk(op, values_at(op.shape, batch), cost)


def _walk(op: Operation, values: int, cost: Costing) -> OpCost:
    """Cost what goes over its values once or a few times."""
    name = op.name
    match op.kind:
        case OpKind.ACTIVATION:
            return _activation(name, values, cost)
        case OpKind.ACTIVATION_GRADIENT:
            return _activation_gradient(name, values, cost)
        case OpKind.POOL:
            return cost.passes(name, values, POOL, supersteps=2, moves=1)
        case OpKind.POOL_GRADIENT:
            return cost.passes(name, values, POOL_GRADIENT, supersteps=3, moves=3)
        case OpKind.DROPOUT:
            return cost.passes(name, values, DROPOUT, supersteps=3)
        case OpKind.DROPOUT_GRADIENT:
            return cost.passes(name, values, SELECT)
        case OpKind.RANDOM:
            return cost.passes(name, values, DROPOUT, supersteps=2)
        case OpKind.GATHER:
            return cost.passes(name, values, ADD, supersteps=3, moves=2)
        case OpKind.SCATTER:
            return cost.passes(name, values, ADD, count=2, supersteps=3, moves=2)
        case OpKind.HEADS:
            return cost.passes(name, values, ADD, supersteps=6, moves=2)
        case OpKind.TRANSPOSE | OpKind.UNKNOWN:
            return cost.passes(name, values, ADD, supersteps=2, moves=2)
    return cost.passes(name, values, Pass(ADD.start, ADD.worker, op.cycles))


def _activation(name: str, values: int, cost: Costing) -> OpCost:
    if name in SOFTMAXES:
        return cost.passes(
            "softmax", values, OTHER, count=4, supersteps=6, code="softmax"
        )
    if name in VECTOR_CYCLES:
        cycles = VECTOR_CYCLES[name][cost.half]
        return cost.passes(name, values, Pass(9, 20, cycles))
    return cost.passes(name, values, ADD if name in _RELUS else OTHER)


def _activation_gradient(name: str, values: int, cost: Costing) -> OpCost:
    function = name.removesuffix(" gradient")
    if function in SOFTMAXES:
        return cost.passes(name, values, OTHER, count=3, supersteps=5, code="softmax")
    if function == "gelu":
        cycles = VECTOR_CYCLES[function][cost.half]
        return cost.passes(name, values, Pass(9, 20, cycles))
    if function in (*_RELUS, "sigmoid", "tanh"):
        return cost.passes(name, values, ACTIVATION_GRADIENT)
    return cost.passes(name, values, OTHER)


def _stages(name: str, values: int, stages: int, cost: Costing) -> OpCost:
    return cost.passes(
        name, values, OTHER, count=stages, supersteps=2 * stages, moves=stages
    )


def _norm(
    name: str,
    extents: tuple[int, ...],
    kind: Pass,
    counts: tuple[int, int, int],
    cost: Costing,
) -> OpCost:
    """Cost passes, reductions and supersteps, which count as one operation."""
    passes, reductions, supersteps = counts
    total, results = extents
    walked = cost.passes(name, total, kind, count=passes)
    reduced = cost.reduction(name, total, results)
    return OpCost(
        name,
        walked.compute + reductions * reduced.compute,
        reductions * reduced.exchange,
        supersteps,
        "norm",
        (total, results),
    )
