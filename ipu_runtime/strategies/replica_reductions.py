"""Reductions over replicas that scripts ask for by names of TensorFlow and Keras."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import all_reduce_together
from ipu_runtime.engine.describe.placement import current_placement
from ipu_runtime.frameworks.patch_points import reduction_patch
from ipu_runtime.frameworks.patching import Patch, applied, around
from ipu_runtime.frameworks.types import Optimizer, Structure, Tensor
from ipu_runtime.system.instance_exchange import (
    mean_over_instances,
    sum_over_instances,
)

_of_gradients: ContextVar[str] = ContextVar("of_gradients", default="")
"""What optimizers do with the gradients of replicas: `sum`, `mean` or nothing."""
_averaged: ContextVar[bool] = ContextVar("averaged", default=False)


def reducing() -> bool:
    """Tell whether a program for replicas is being traced."""
    return bool(_of_gradients.get())


@contextmanager
def reductions_on_device(of_gradients: str = "sum") -> Iterator[None]:
    """Let optimizers reduce gradients, and contexts values, over all replicas.

    Args:
        of_gradients: `sum`, for losses that are divided already; or `mean`.
    """
    token = _of_gradients.set(of_gradients)
    try:
        with applied(_patches):
            yield
    finally:
        _of_gradients.reset(token)


@contextmanager
def gradients_averaged() -> Iterator[None]:
    """Let an optimizer take gradients that are means over all replicas already."""
    token = _averaged.set(True)
    try:
        yield
    finally:
        _averaged.reset(token)


def reduce_over_replicas(
    reduce_op: Any, value: Structure, axis: Any = None
) -> Structure:
    """Sum or average a structure of tensors on the device; the host's stay as is."""
    kind = str(reduce_op).rpartition(".")[2].lower()
    if kind not in ("sum", "mean"):
        raise ValueError(
            f"Only SUM and MEAN are supported on the IPU, not {reduce_op!r}."
        )
    if not reducing():
        return value
    along = tf.reduce_sum if kind == "sum" else tf.reduce_mean

    flat = tf.nest.flatten(value)
    if axis is not None:
        flat = [along(tensor, axis) for tensor in flat]
    return tf.nest.pack_sequence_as(value, _together(flat, kind))


def _together(tensors: Sequence[Tensor], kind: str) -> list[Tensor]:
    if tf.compat.v1.get_default_graph().building_function:
        return all_reduce_together(tensors, kind)
    # On the host, after the program: it has the values of this process.
    placement = current_placement()
    assert placement is not None
    reduce = sum_over_instances if kind == "sum" else mean_over_instances
    return reduce(tensors, placement.instance)


def _apply_reduced(
    original: Any, optimizer: Optimizer, pairs: Any, *args: Any, **kwargs: Any
) -> Any:
    pairs = list(pairs)
    kind = _of_gradients.get()
    if kind and not (kind == "mean" and _averaged.get()):
        reduced = _together([gradient for gradient, _ in pairs], kind)
        variables = [variable for _, variable in pairs]
        pairs = list(zip(reduced, variables, strict=True))
    return original(optimizer, pairs, *args, **kwargs)


def _reduce(
    original: Any, context: Any, reduce_op: Any, value: Any, options: Any = None
) -> Any:
    if reducing():
        return reduce_over_replicas(reduce_op, value)
    return original(context, reduce_op, value, options)


_patches = (
    # Keras optimizers ask the context for the sum of their gradients.
    Patch(tf.compat.v1.train.Optimizer, "apply_gradients", around(_apply_reduced)),
    reduction_patch(around(_reduce)),
)
