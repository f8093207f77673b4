"""Reductions over replicas: `ipu.ops.cross_replica_ops`."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.replicas.collectives import all_reduce
from ipu_runtime.frameworks.types import Tensor


def cross_replica_sum(
    x: Tensor, replica_group_size: int | None = None, name: str | None = None
) -> Any:
    """Sum over all replicas, or over consecutive groups of them."""
    del name
    return all_reduce(x, "sum", replica_group_size)


def cross_replica_mean(
    x: Tensor, replica_group_size: int | None = None, name: str | None = None
) -> Any:
    """Average over all replicas, or over consecutive groups of them."""
    del name
    return all_reduce(x, "mean", replica_group_size)


def assume_equal_across_replicas(tensors: Any, inplace: bool = False) -> Any:
    """Return the tensors; states that all replicas have the same."""
    del inplace
    return tensors
