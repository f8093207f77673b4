"""Reductions whose result is spread over replicas: `ipu.ops.reduce_scatter_op`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas import collectives
from ipu_runtime.engine.build.replicas.collectives import (
    check_operator,
    parts,
    reduced,
)
from ipu_runtime.frameworks.types import Tensor


def reduce_scatter(
    x: Tensor,
    replication_factor: int,
    op: str = "COLLECTIVE_OP_ADD",
    name: str | None = None,
) -> Any:
    """Reduce vectors over replicas; each gets its part, filled up with zeros.

    Replicas reduce in consecutive groups of `replication_factor`. A list of several
    vectors gives a list.
    """
    del name
    check_operator(op)
    results = [
        _reduce_scatter(tf.convert_to_tensor(item), replication_factor, op)
        for item in tf.nest.flatten(x)
    ]
    return results[0] if len(results) == 1 else results


def _reduce_scatter(vector: Any, group: int, op: str) -> Any:
    if vector.shape.rank != 1:
        raise ValueError(
            f"Shape must be rank 1 but is rank {vector.shape.rank}: reduce_scatter "
            f"takes vectors, and x has shape {vector.shape}."
        )
    own = collectives.index_in_group(group)
    total = reduced(collectives.all_gather(vector, group), op, own)
    return parts(total, group)[own]
