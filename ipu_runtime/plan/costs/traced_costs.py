"""Cost of traced operations, from the same parts as that of known layers."""

from __future__ import annotations

import math

from ipu_runtime.plan.costs.activation_costs import (
    activation_backward,
    activation_forward,
)
from ipu_runtime.plan.costs.matrix_unit import MatrixShape
from ipu_runtime.plan.costs.norm_costs import norm_gradient_op, norm_op
from ipu_runtime.plan.costs.op_costs import (
    ADD,
    DROPOUT,
    OTHER,
    POOL,
    POOL_GRADIENT,
    Costing,
    OpCost,
    Pass,
)
from ipu_runtime.plan.model.traced_ops import OpKind, TracedOp, at_batch, values_at


def cost_traced(op: TracedOp, batch: int, cost: Costing) -> OpCost:
    """Cost one operation; its code is there once, however often a loop runs it."""
    half = op.value_bytes <= 2
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


def _once(op: TracedOp, batch: int, cost: Costing) -> OpCost:
    extents = tuple(at_batch(extent, batch) for extent in op.shape)
    match op.kind:
        case OpKind.MATMUL:
            rows, inner, columns, groups = extents
            shape = MatrixShape(rows, inner, columns, groups=groups)
            return cost.matmul(op.name, shape)
        case OpKind.CONVOLUTION:
            return cost.convolution(op.name, MatrixShape(*extents))
        case OpKind.DATA_GRADIENT:
            shape = MatrixShape(*extents)
            return cost.convolution(op.name, shape, extra_supersteps=2)
        case OpKind.WEIGHT_GRADIENT:
            return cost.weight_gradient_of_convolution(op.name, MatrixShape(*extents))
        case OpKind.REDUCTION:
            return cost.reduction(op.name, extents[0], extents[1])
        case OpKind.NORM:
            return norm_op(extents[0], extents[1], cost)
        case OpKind.NORM_GRADIENT:
            return norm_gradient_op(extents[0], extents[1], cost)
        case OpKind.SORT:
            # A bitonic network over the axis, values exchanged at every stage.
            steps = math.ceil(math.log2(max(extents[1], 2)))
            return _stages(op, extents[0], steps * (steps + 1) // 2, cost)
        case OpKind.SCAN:
            return _stages(
                op, extents[0], math.ceil(math.log2(max(extents[1], 2))), cost
            )
    return _walk(op, values_at(op.shape, batch), cost)


def _stages(op: TracedOp, values: int, stages: int, cost: Costing) -> OpCost:
    return cost.passes(
        op.name, values, OTHER, count=stages, supersteps=2 * stages, moves=stages
    )


def _walk(op: TracedOp, values: int, cost: Costing) -> OpCost:
    """Cost what goes over its values once or a few times."""
    match op.kind:
        case OpKind.SOFTMAX:
            return activation_forward("softmax", values, cost)[0]
        case OpKind.SOFTMAX_GRADIENT:
            return activation_backward("softmax", values, cost)[0]
        case OpKind.POOL:
            return cost.passes(op.name, values, POOL, supersteps=2, moves=1)
        case OpKind.POOL_GRADIENT:
            return cost.passes(op.name, values, POOL_GRADIENT, supersteps=3, moves=3)
        case OpKind.RANDOM:
            return cost.passes(op.name, values, DROPOUT, supersteps=2)
        case OpKind.GATHER:
            return cost.passes(op.name, values, ADD, supersteps=3, moves=2)
        case OpKind.SCATTER:
            return cost.passes(op.name, values, ADD, count=2, supersteps=3, moves=2)
        case OpKind.TRANSPOSE | OpKind.UNKNOWN:
            return cost.passes(op.name, values, ADD, supersteps=2, moves=2)
        case OpKind.COPY:
            return cost.passes(op.name, values, ADD, moves=1)
    return cost.passes(op.name, values, Pass(ADD.start, ADD.worker, op.cycles))
