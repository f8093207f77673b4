"""Times of layers, added up from the first one on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ipu_runtime.plan.costs.matrix_unit import PASS_SUPERSTEPS
from ipu_runtime.plan.costs.op_costs import OpCost
from ipu_runtime.plan.memory.code_size import MATRIX_CODES
from ipu_runtime.plan.plan import Plan
from workbench.optimizing.least_memory import Floats

_STRICTER = 0.995
"""Reductions gain a few cycles in thousands from fewer tiles."""


class LayerSums(NamedTuple):
    """Before every layer, and after the last."""

    forward: Floats
    backward: Floats
    fewer_supersteps: int
    """That stricter devices may have, of those that the plan counts."""


def layer_sums(plan: Plan, clock_hz: float, any_device: bool) -> LayerSums:
    """Return those of a plan, or what every device takes that is stricter than its own.

    Fewer tiles and less memory leave fewer ways to share out a product, of which the
    one with fewest cycles is taken. But it may be one without the superstep that adds
    up partial sums.
    """
    layers = plan.layers
    forward_us = np.array([layer.forward_us for layer in layers])
    backward_us = np.array([layer.backward_us for layer in layers])
    if not any_device:
        return LayerSums(_sums(forward_us), _sums(backward_us), 0)
    superstep_us = plan.constants["sigma"] * 1e6 / clock_hz
    ahead = np.array([_spared(layer.forward_ops) for layer in layers])
    back = np.array([_spared(layer.backward_ops) for layer in layers])
    return LayerSums(
        _STRICTER * _sums(forward_us - superstep_us * ahead),
        _STRICTER * _sums(backward_us - superstep_us * back),
        int(ahead.sum() + back.sum()),
    )


def _spared(ops: Iterable[OpCost]) -> int:
    return sum(
        op.code in MATRIX_CODES and op.supersteps > PASS_SUPERSTEPS for op in ops
    )


def _sums(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
