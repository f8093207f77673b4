"""Reductions over replicas that scripts ask for by names of TensorFlow and Keras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.collectives import all_reduce
from ipu_runtime.keras.patching import Patch

_on_device: ContextVar[bool] = ContextVar("on_device", default=False)


def reducing() -> bool:
    """Tell whether a program for replicas is being traced."""
    return _on_device.get()


@contextmanager
def reductions_on_device() -> Iterator[None]:
    """Let optimizers sum gradients, and contexts reduce values, over all replicas."""
    token = _on_device.set(True)
    try:
        with ExitStack() as patches:
            for patch in _patches:
                patches.enter_context(patch.applied())
            yield
    finally:
        _on_device.reset(token)


def reduce_over_replicas(reduce_op: Any, value: Any, axis: Any = None) -> Any:
    """Sum or average a structure of tensors on the device; the host's stay as is."""
    kind = str(reduce_op).rpartition(".")[2].lower()
    if kind not in ("sum", "mean"):
        raise ValueError(
            f"Only SUM and MEAN are supported on the IPU, not {reduce_op!r}."
        )
    if not _on_device.get():
        return value
    along = tf.reduce_sum if kind == "sum" else tf.reduce_mean

    def reduce(tensor: Any) -> Any:
        return all_reduce(tensor if axis is None else along(tensor, axis), kind)

    return tf.nest.map_structure(reduce, value)


def _summed(gradient: Any) -> Any:
    if gradient is None or not _on_device.get():
        return gradient
    return all_reduce(tf.convert_to_tensor(gradient), "sum")


def _summing(original: Any) -> Any:
    def apply_gradients(self: Any, pairs: Any, *args: Any, **kwargs: Any) -> Any:
        summed = [(_summed(gradient), variable) for gradient, variable in pairs]
        return original(self, summed, *args, **kwargs)

    return apply_gradients


def _reducing_context(original: Any) -> Any:
    def reduce(self: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
        if _on_device.get():
            return reduce_over_replicas(reduce_op, value)
        return original(self, reduce_op, value, options)

    return reduce


_patches = (
    # Keras optimizers ask the context for the sum of their gradients.
    Patch(tf.compat.v1.train.Optimizer, "apply_gradients", _summing),
    Patch(tf.distribute.ReplicaContext.__base__, "all_reduce", _reducing_context),
)
