"""What goes between the processes of a job: tensors as one buffer for each type."""

from __future__ import annotations

import collections
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.frameworks.tensorflow_graphs import eagerly
from ipu_runtime.system.cluster import join, ring
from ipu_runtime.system.instances import Instance
from ipu_runtime.system.ring import Array, LostInstanceError

_used: collections.Counter[str] = collections.Counter()
"""How many exchanges of a kind there are in graphs."""


def sum_over_instances(tensors: Sequence[Any], instance: Instance) -> list[Any]:
    """Return the sums over all processes; None stays None."""
    if instance.count == 1:
        return list(tensors)
    return in_buffers(tensors, lambda buffer: _exchanged("sum", buffer, instance))


def in_buffers(tensors: Sequence[Any], exchange: Callable[[Any], Any]) -> list[Any]:
    """Exchange all tensors of a type as one buffer; None stays None.

    Each exchange between processes costs milliseconds, however small it is. Types go
    in the order of their names, so that all processes exchange the same at a time.
    """
    results = list(tensors)
    places: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if tensor is not None:
            results[place] = tf.convert_to_tensor(tensor)
            places.setdefault(results[place].dtype, []).append(place)
    for dtype in sorted(places, key=lambda item: str(item.name)):
        parts = [results[place] for place in places[dtype]]
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
    return _exchanged("gather", stack, instance)


def gather_values(arrays: Sequence[Array], instance: Instance) -> list[Array]:
    """Return the values of all processes, each array stacked; every bit is kept."""
    # All in one exchange: each takes milliseconds.
    content = b"".join(array.tobytes() for array in arrays)
    every = gather_instances(np.frombuffer(content, np.uint8), instance).numpy()
    stacked, begin = [], 0
    for array in arrays:
        part = every[:, begin : begin + array.nbytes]
        shape = (instance.count, *array.shape)
        stacked.append(part.copy().view(array.dtype).reshape(shape))
        begin += array.nbytes
    return stacked


def take_from(root: int, tensor: Any, instance: Instance) -> Any:
    """Return the tensor of one process."""
    tensor = tf.convert_to_tensor(tensor)
    if instance.count == 1:
        return tensor
    return gather_instances(tensor, instance)[root]


def take_all_from(root: int, tensors: Sequence[Any], instance: Instance) -> list[Any]:
    """Return the tensors of one process."""
    if instance.count == 1:
        return list(tensors)
    return in_buffers(tensors, lambda buffer: take_from(root, buffer, instance))


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
        # TensorFlow has made an error of its own of what was raised inside of a graph.
        if instance.count == 1 or LostInstanceError.__name__ not in str(error):
            raise
        raise ring().loss() from error


def _exchanged(kind: str, tensor: Any, instance: Instance) -> Any:
    join()
    exchange = ring().sum if kind == "sum" else ring().gather
    signature = f"{kind} {tensor.dtype.name} {tuple(tensor.shape)}"
    if tf.executing_eagerly():
        return tf.constant(exchange(_key(f"eager {signature}"), tensor.numpy()))
    _used[signature] += 1
    key = _key(f"{signature} {_used[signature]}")

    def exchanged(values: Array) -> Array:
        return exchange(key, values)

    result = tf.numpy_function(exchanged, [tensor], tensor.dtype)
    first = [] if kind == "sum" else [instance.count]
    result.set_shape([*first, *tensor.shape[len(first) :]])
    return result


def in_session() -> bool:
    """Tell whether what is built now will be run by a session of TensorFlow 1."""
    with tf.init_scope():
        return not tf.executing_eagerly()


def _key(signature: str) -> int:
    """Return what the same exchange has in all processes, and no other one."""
    return zlib.crc32(signature.encode()) & 0x7FFFFFFF
