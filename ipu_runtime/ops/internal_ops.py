"""Printing, copies and queues inside of a program: `ipu.ops.internal_ops`."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import ProgramState
from ipu_runtime.engine.build.tracing_context import current_iteration


def print_tensor(input: Any, name: str = "") -> Any:  # noqa: A002 - the API's own name
    """Return an operation that prints a tensor to the standard error, all of it.

    In a graph it has to be returned, run, or be a control dependency of what is run.
    """
    head = [f"{name}:"] if name else []
    return tf.print(*head, input, output_stream=sys.stderr, summarize=-1)


def remap(x: Any, name: str | None = None) -> Any:
    """Return a copy of the tensor, spread linearly over the tiles of the device."""
    return tf.identity(x, name=name)


def remap_deduce(x: Any, name: str | None = None) -> Any:
    """Return a copy of the tensor, spread over the tiles as the device sees fit."""
    return tf.identity(x, name=name)


def fifo(x: Any, depth: int, offload: bool = False, name: str | None = None) -> Any:
    """Return what `x` was `depth` iterations ago; zeros before, and no gradient."""
    del offload
    if depth < 1:
        return x
    x = tf.convert_to_tensor(x)
    state = ProgramState([depth, *x.shape], x.dtype)
    waiting = state.read()
    written = state.write(tf.concat([waiting[1:], x[tf.newaxis]], axis=0))
    with tf.control_dependencies([written] if written is not None else []):
        return tf.stop_gradient(tf.identity(waiting[0]), name=name)


def get_current_iteration_counter(name: str | None = None, **kwargs: Any) -> Any:
    """Return the number of the micro-batch of a pipeline, or of the loop's iteration.

    A pipeline starts again at 0 for every weight update.
    """
    del kwargs  # They say where the device computes the number.
    counter = current_iteration()
    if counter is None:
        raise ValueError(
            "get_current_iteration_counter must be called inside a stage of "
            "ipu.pipelining_ops.pipeline, or in the body of ipu.loops.repeat."
        )
    return tf.identity(counter, name=name)
