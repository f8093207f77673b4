"""What goes between the processes of a job: tensors as one buffer for each type."""

from __future__ import annotations

import collections
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ipu_runtime.engine.programs.tracing import traced
from ipu_runtime.frameworks.tensorflow_collectives import (
    called_by_session,
    eagerly,
    sum_of_processes,
    values_of_processes,
)
from ipu_runtime.system.cluster import join
from ipu_runtime.system.instances import Instance

_used: collections.Counter[str] = collections.Counter()
"""How many exchanges of a kind there are in graphs."""

_LOST = ("Collective ops is aborted", "LostInstanceError")
"""In errors of exchanges: TensorFlow's own, and what sessions make of ours."""

_WORD = 8

Array = npt.NDArray[Any]
Exchange = Callable[[Any, int, int], Any]


class LostInstanceError(RuntimeError):
    """Another process of the job has ended, or cannot be reached."""


def sum_over_instances(tensors: Sequence[Any], instance: Instance) -> list[Any]:
    """Return the sums over all processes; None stays None."""
    return _in_buffers(
        tensors,
        lambda buffer: _exchanged("sum", buffer, instance, sum_of_processes),
        instance,
    )


def _in_buffers(
    tensors: Sequence[Any], exchange: Callable[[Any], Any], instance: Instance
) -> list[Any]:
    """Exchange all tensors of a type as one buffer: each time costs milliseconds."""
    results = list(tensors)
    if instance.count == 1:
        return results
    places: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if tensor is not None:
            places.setdefault(tensor.dtype, []).append(place)
    for dtype in sorted(places, key=lambda item: str(item.name)):
        parts = [tf.convert_to_tensor(tensors[place]) for place in places[dtype]]
        buffer = tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)
        sizes = [part.shape.num_elements() for part in parts]
        pieces = tf.split(exchange(buffer), sizes)
        for place, part, piece in zip(places[dtype], parts, pieces, strict=True):
            results[place] = tf.reshape(piece, part.shape)
    return results


def mean_over_instances(tensors: Sequence[Any], instance: Instance) -> list[Any]:
    """Return the means over all processes; None stays None."""
    if instance.count == 1:
        return list(tensors)
    return [
        None if total is None else total / tf.cast(instance.count, total.dtype)
        for total in sum_over_instances(tensors, instance)
    ]


def gather_instances(tensor: Any, instance: Instance) -> Any:
    """Return the tensors of all processes, stacked."""
    stack = tf.convert_to_tensor(tensor)[tf.newaxis]
    if instance.count == 1:
        return stack
    return _exchanged("gather", stack, instance, values_of_processes)


def gather_values(arrays: Sequence[Array], instance: Instance) -> list[Array]:
    """Return the values of all processes, each array stacked; every bit is kept."""
    content = b"".join(array.tobytes() for array in arrays)
    # All in one exchange, which has no small types; the rest of a word is nothing.
    padded = content.ljust(math.ceil(len(content) / _WORD) * _WORD, b"\0")
    words = gather_instances(np.frombuffer(padded, np.int64), instance).numpy()
    stacked, begin = [], 0
    for array in arrays:
        part = words.view(np.uint8)[:, begin : begin + array.nbytes]
        shape = (instance.count, *array.shape)
        stacked.append(part.copy().view(array.dtype).reshape(shape))
        begin += array.nbytes
    return stacked


def take_from(root: int, tensor: Any, instance: Instance) -> Any:
    """Return the tensor of one process."""
    tensor = tf.convert_to_tensor(tensor)
    if instance.count == 1:
        return tensor
    if tensor.dtype in (tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.uint32):
        # The exchange has wide types only.
        wide = take_from(root, tf.cast(tensor, tf.int64), instance)
        return tf.cast(wide, tensor.dtype)
    return gather_instances(tensor, instance)[root]


def take_all_from(root: int, tensors: Sequence[Any], instance: Instance) -> list[Any]:
    """Return the tensors of one process."""
    return _in_buffers(
        tensors, lambda buffer: take_from(root, buffer, instance), instance
    )


def wait_for_instances(instance: Instance) -> None:
    """Go on when all processes have come as far as this."""
    with eagerly():
        sum_over_instances([tf.constant(0.0)], instance)


@contextmanager
def lost_instances_named(instance: Instance) -> Iterator[None]:
    """Say in plain words that another process is gone."""
    try:
        yield
    except tf.errors.OpError as error:
        if instance.count == 1 or not any(sign in str(error) for sign in _LOST):
            raise
        raise LostInstanceError(
            f"Instance {instance.index} of {instance.count} has lost the connection to "
            "another one, which has ended or cannot be reached; see what that one "
            "wrote last."
        ) from error


def _exchanged(kind: str, tensor: Any, instance: Instance, exchange: Exchange) -> Any:
    join()
    signature = f"{kind} {tensor.dtype.name} {tuple(tensor.shape)}"
    if tf.executing_eagerly():
        with lost_instances_named(instance):
            return exchange(tensor, instance.count, _key(f"eager {signature}"))
    _used[signature] += 1
    key = _key(f"{signature} {_used[signature]}")

    def exchanged(value: Any) -> Any:
        return exchange(value, instance.count, key)

    if in_session():

        def named(value: Any) -> Any:
            with lost_instances_named(instance):
                return exchanged(value)

        shape = tensor.shape if kind == "sum" else [instance.count, *tensor.shape[1:]]
        return called_by_session(named, tensor, shape)
    # Not inlined: TensorFlow tells exchanges apart by the iterations of the loop around
    # them, and processes may cut a loop in different places.
    return traced(exchanged, experimental_attributes={"_noinline": True})(tensor)


def in_session() -> bool:
    """Tell whether what is built now will be run by a session of TensorFlow 1."""
    with tf.init_scope():
        return not tf.executing_eagerly()


def _key(signature: str) -> int:
    """Return what the same exchange has in all processes, and no other one."""
    return zlib.crc32(signature.encode()) & 0x7FFFFFFF
