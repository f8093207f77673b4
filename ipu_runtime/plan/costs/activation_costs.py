"""Cost of activation functions, wherever a layer applies one."""

from __future__ import annotations

from ipu_runtime.plan.costs.op_costs import (
    ACTIVATION_GRADIENT,
    ADD,
    OTHER,
    Costing,
    OpCost,
    Pass,
)

NO_ACTIVATION = ("linear", "", None)
VECTOR_CYCLES = {"sigmoid": (10, 4), "tanh": (10, 2), "gelu": (10, 5)}
"""Cycles per vector in fp32 and fp16."""
KNOWN_ACTIVATIONS = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
    "threshold",
)


def activation_forward(name: str | None, total: int, cost: Costing) -> list[OpCost]:
    """Cost an activation over `total` values."""
    if name in NO_ACTIVATION:
        return []
    if name in ("softmax", "log_softmax", "sparsemax"):
        return [
            cost.passes("softmax", total, OTHER, count=4, supersteps=6, code="softmax")
        ]
    if name in ("relu", "relu6"):
        return [cost.passes(name, total, ADD)]
    if name in VECTOR_CYCLES:
        cycles = VECTOR_CYCLES[name][cost.half]
        return [cost.passes(name, total, Pass(9, 20, cycles))]
    return [cost.passes(str(name), total, OTHER)]


def activation_backward(name: str | None, total: int, cost: Costing) -> list[OpCost]:
    """Cost the gradient of an activation over `total` values."""
    if name in NO_ACTIVATION:
        return []
    label = f"{name} gradient"
    if name in ("softmax", "log_softmax", "sparsemax"):
        return [cost.passes(label, total, OTHER, count=3, supersteps=5, code="softmax")]
    if name == "gelu":
        cycles = VECTOR_CYCLES[name][cost.half]
        return [cost.passes(label, total, Pass(9, 20, cycles))]
    if name in ("relu", "relu6", "sigmoid", "tanh"):
        return [cost.passes(label, total, ACTIVATION_GRADIENT)]
    return [cost.passes(label, total, OTHER)]
