"""TensorFlow's own exchange of tensors between processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops import collective_ops

_GROUP = 1
"""All processes of a cluster are one group."""


def open_cluster() -> Any:
    """Connect to the processes that `TF_CONFIG` names; only once, and first of all.

    The strategy is there for its connections: no model is made in its scope.
    """
    return tf.distribute.MultiWorkerMirroredStrategy()


def context_is_open() -> bool:
    """Tell whether TensorFlow has begun to work, too late to connect processes."""
    return context.context()._context_handle is not None


def eagerly() -> AbstractContextManager[None]:
    """Let code run at once, also in scripts of TensorFlow 1 and inside of graphs."""
    manager: AbstractContextManager[None] = context.eager_mode()
    return manager


def called_by_session(function: Callable[[Any], Any], tensor: Any, shape: Any) -> Any:
    """Return what a function makes of a tensor whenever a session runs the graph.

    Sessions are not connected to other processes, but eager code is.
    """
    result = tf.py_function(function, [tensor], tensor.dtype)
    result.set_shape(shape)
    return result


def sum_of_processes(tensor: Any, processes: int, key: int) -> Any:
    """Return the sum; exchanges that may run at the same time need other keys."""
    return collective_ops.all_reduce_v2(tensor, processes, _GROUP, key)


def values_of_processes(tensor: Any, processes: int, key: int) -> Any:
    """Return the values of all processes, joined along the first axis."""
    return collective_ops.all_gather_v2(tensor, processes, _GROUP, key)
