"""`ipu.distributed.host_collective_ops`: values that go between processes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.system.cluster import join
from ipu_runtime.system.instance_exchange import (
    gather_instances,
    mean_over_instances,
    sum_over_instances,
    take_from,
)

Sum = tf.distribute.ReduceOp.SUM
Average = tf.distribute.ReduceOp.MEAN


def allgather(value: Any, tensor_name: str | None = None) -> Any:
    """Return the values of all processes, joined along the first axis."""
    del tensor_name  # Exchanges find each other by their order.
    tensor = tf.convert_to_tensor(value)
    every = gather_instances(tensor, join())
    return tf.reshape(every, [-1, *tensor.shape[1:]])


def allreduce(value: Any, reduce_op: Any, tensor_name: str | None = None) -> Any:
    """Return the sum or the mean over all processes."""
    del tensor_name
    kind = str(getattr(reduce_op, "value", reduce_op)).upper()
    if kind not in ("SUM", "MEAN"):
        raise ValueError(
            f"reduce_op is {reduce_op!r}; it must be ReduceOp.SUM or ReduceOp.MEAN."
        )
    reduce = sum_over_instances if kind == "SUM" else mean_over_instances
    (result,) = reduce([tf.convert_to_tensor(value)], join())
    return result


def broadcast(value: Any, root_rank: int = 0, tensor_name: str | None = None) -> Any:
    """Return the value of one process."""
    del tensor_name
    instance = join()
    if not 0 <= root_rank < instance.count:
        raise ValueError(
            f"root_rank is {root_rank}; it must be in [0, {instance.count})."
        )
    return take_from(root_rank, value, instance)
