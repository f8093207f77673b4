"""Exchange of whole tensors between replicas: `ipu.ops.all_to_all_op`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas import collectives
from ipu_runtime.frameworks.types import Tensor


def all_to_all(
    x: Tensor,
    split_dimension: int,
    concat_dimension: int,
    replication_factor: int,
    name: str | None = None,
) -> Any:
    """Send every replica its block of `x`, and join the blocks that arrive.

    Blocks are cut along one dimension and joined along another, in the order of the
    replicas that they come from.
    """
    x = tf.convert_to_tensor(x)
    for field, value in (
        ("split_dimension", split_dimension),
        ("concat_dimension", concat_dimension),
    ):
        if not 0 <= value < x.shape.rank:
            raise ValueError(
                f"`{field}` is {value}; it must be from 0 to {x.shape.rank - 1} for a "
                f"tensor of shape {x.shape}."
            )
    extent = x.shape[split_dimension]
    if extent % replication_factor:
        raise ValueError(
            f"Dimension {split_dimension} of x has extent {extent}; it must be a "
            f"multiple of `replication_factor`, which is {replication_factor}."
        )
    blocks = tf.stack(tf.split(x, replication_factor, axis=split_dimension))
    every = collectives.all_gather(blocks, replication_factor)
    own = collectives.index_in_group(replication_factor)
    arrived = tf.unstack(tf.gather(every, own, axis=1))
    return tf.concat(arrived, axis=concat_dimension, name=name or "all_to_all")


def all_gather(x: Tensor, replication_factor: int, name: str | None = None) -> Any:
    """Return the tensors of all replicas of a group, stacked."""
    del name
    return collectives.all_gather(x, replication_factor)
