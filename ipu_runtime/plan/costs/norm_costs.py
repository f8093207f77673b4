"""Cost of normalisations, wherever a layer has one."""

from __future__ import annotations

from ipu_runtime.plan.costs.op_costs import NORM, NORM_GRADIENT, Costing, OpCost, Pass


def norm_op(total: int, results: int, cost: Costing) -> OpCost:
    """Cost a normalisation of `total` values by some means."""
    # Stable statistics subtract the mean before they square: one pass more.
    extra = int(cost.stable_norms)
    return _one_op("normalise", total, results, NORM, (3 + extra, 2, 7 + extra), cost)


def norm_gradient_op(total: int, results: int, cost: Costing) -> OpCost:
    """Cost the gradient of `norm_op`."""
    counts = (4, 3, 9)
    return _one_op("normalise gradient", total, results, NORM_GRADIENT, counts, cost)


def _one_op(
    name: str,
    total: int,
    results: int,
    kind: Pass,
    counts: tuple[int, int, int],
    cost: Costing,
) -> OpCost:
    """Cost passes, reductions and supersteps, which count as one op."""
    passes, reductions, supersteps = counts
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
