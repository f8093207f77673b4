"""TensorFlow's own exchange of tensors between processes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.ops import collective_ops

_GROUP = 1
"""All processes of a cluster are one group."""


def open_cluster() -> Any:
    """Connect to the processes that `TF_CONFIG` names; only once, and first of all.

    The strategy is there for its connections: no model is made in its scope.
    """
    held = pywrap_tfe.TFE_EnableCollectiveOps
    pywrap_tfe.TFE_EnableCollectiveOps = _connect
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    finally:
        pywrap_tfe.TFE_EnableCollectiveOps = held


def _connect(context_handle: Any, server: bytes) -> None:
    """Wait for the other processes while threads of Python go on.

    TensorFlow's own binding of this call lets none of them, so that nobody could say
    what is waited for, or end it.
    """
    library, status = _library("libtensorflow_cc"), _library("libtensorflow_framework")
    status.TF_NewStatus.restype = ctypes.c_void_p
    status.TF_Message.restype = ctypes.c_char_p
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    opened = ctypes.c_void_p(pointer(ctypes.py_object(context_handle), None))
    outcome = ctypes.c_void_p(status.TF_NewStatus())
    length = ctypes.c_size_t(len(server))
    library.TFE_EnableCollectiveOps(opened, server, length, outcome)
    code, message = status.TF_GetCode(outcome), status.TF_Message(outcome).decode()
    status.TF_DeleteStatus(outcome)
    if code:
        kind = tf.compat.v1.errors.exception_type_from_error_code(code)
        raise kind(None, None, message)


def _library(name: str) -> ctypes.CDLL:
    """Return a part of TensorFlow as it is loaded already."""
    (path,) = Path(tf.sysconfig.get_lib()).glob(f"{name}.*2*")
    return ctypes.CDLL(str(path))


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
