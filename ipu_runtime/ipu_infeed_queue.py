"""Data on their way from the host to the device: `ipu.ipu_infeed_queue`."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.program_step import tracing_application
from ipu_runtime.frameworks.tensorflow_graphs import iterator_resource
from ipu_runtime.strategies.dataset_iterators import IPUOwnedIterator
from ipu_runtime.strategies.strategy_stack import default_device_ordinal

__all__ = ["IPUInfeedQueue", "IPUIterator", "IPUOwnedIterator", "checked_ordinal"]

IPUIterator = IPUOwnedIterator

_NOT_ON_DEVICE = (tf.int64, tf.float64)


class IPUInfeedQueue:
    """Feeds the elements of a dataset to programs; replicas take turns.

    Accepts the arguments of the older API too: a feed name, a replication factor and
    `data_to_prefetch`, none of which changes what is fed.
    """

    def __init__(
        self,
        dataset: Any,
        device_ordinal: int | str | None = None,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
        *,
        feed_name: str | None = None,
        replication_factor: int = 1,
        data_to_prefetch: int = 1,
    ) -> None:
        del optimise_latency, replication_factor, data_to_prefetch
        if isinstance(device_ordinal, str):
            device_ordinal, feed_name = None, device_ordinal
        self.feed_name = feed_name or "infeed"
        self._device_ordinal = checked_ordinal(device_ordinal)
        self._prefetch_depth = _checked_depth(prefetch_depth)
        self._spec = dataset.element_spec
        for spec in tf.nest.flatten(self._spec):
            if not spec.shape.is_fully_defined():
                raise ValueError(
                    f"The dataset's element {spec} has a shape that is not fully "
                    "defined. Batch it with `drop_remainder=True`, so that the last "
                    "batch is as large as the others."
                )
        self.host_dataset = dataset
        """The data as they were given."""
        self._made_eagerly = tf.executing_eagerly()
        self._resource: Any = None
        self._ready = False
        self._dequeued = False
        self._iterators: weakref.WeakKeyDictionary[Any, Any] = (
            weakref.WeakKeyDictionary()
        )
        self._initializer_read: weakref.WeakSet[Any] = weakref.WeakSet()

    @property
    def _signature(self) -> dict[str, Any]:
        flat = tf.nest.flatten(self._spec)
        return {
            "output_types": [spec.dtype for spec in flat],
            "output_shapes": [spec.shape for spec in flat],
        }

    @property
    def initializer(self) -> Any:
        """Start the data from their first element; in a graph, an operation for it."""
        for spec in tf.nest.flatten(self._spec):
            if spec.dtype in _NOT_ON_DEVICE:
                raise tf.errors.FailedPreconditionError(
                    None,
                    None,
                    f"Unsupported datatype {spec.dtype.name} in infeed "
                    f"{self.feed_name!r}: cast to int32, float32 or float16.",
                )
        if tf.executing_eagerly():
            self._ready = True
            return tf.raw_ops.MakeIterator(
                dataset=tf.data.experimental.to_variant(
                    _endless(self.host_dataset, self._prefetch_depth)
                ),
                iterator=self._eager_resource(),
            )
        graph = tf.compat.v1.get_default_graph()
        if graph in self._initializer_read:
            raise ValueError(
                "The initializer of an infeed queue can only be read once; keep it."
            )
        self._initializer_read.add(graph)
        return self._iterator().initializer

    @property
    def deleter(self) -> Any:
        """Release the data; in a graph, an operation for it."""
        self._ready = False
        return None if tf.executing_eagerly() else tf.no_op()

    @property
    def dequeued(self) -> bool:
        """Whether a program takes elements from this queue."""
        return self._dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """Tensors of one element."""
        return len(tf.nest.flatten(self._spec))

    @property
    def element_spec(self) -> Any:
        """Structure of one element."""
        return self._spec

    def get_next(self) -> Any:
        """Refuse: programs take elements by themselves."""
        raise ValueError(
            "get_next is obsolete: pass the queue to loops.repeat or to a pipeline."
        )

    def take(self) -> Any:
        """Return the next element, inside a program."""
        with tf.init_scope():
            if not tf.executing_eagerly():
                resource = iterator_resource(self._iterator())
            elif self._ready or tracing_application():
                resource = self._eager_resource()
            else:
                raise tf.errors.FailedPreconditionError(
                    None, None, f"Infeed {self.feed_name!r} has not been initialized."
                )
        self._dequeued = True
        flat = tf.raw_ops.IteratorGetNext(iterator=resource, **self._signature)
        for tensor, spec in zip(flat, tf.nest.flatten(self._spec), strict=True):
            tensor.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(self._spec, flat)

    # What scripts for the device call it.
    _dequeue = take

    def _eager_resource(self) -> Any:
        if self._resource is None:
            self._resource = tf.raw_ops.AnonymousIteratorV3(**self._signature)
        return self._resource

    def _iterator(self) -> Any:
        """Return the iterator of the current session's graph."""
        graph = tf.compat.v1.get_default_graph()
        if graph not in self._iterators:
            dataset = self.host_dataset
            if self._made_eagerly:
                # A graph cannot refer to a data set that lives outside of it.
                dataset = tf.data.Dataset.from_generator(
                    self.host_dataset.as_numpy_iterator, output_signature=self._spec
                )
            self._iterators[graph] = tf.compat.v1.data.make_initializable_iterator(
                _endless(dataset, self._prefetch_depth),
                shared_name=graph.unique_name(self.feed_name),
            )
        return self._iterators[graph]


def checked_ordinal(device_ordinal: int | None) -> int:
    """Return the device of a feed: the strategy's, unless one is named."""
    if device_ordinal is None:
        return default_device_ordinal()
    if not isinstance(device_ordinal, int) or device_ordinal < 0:
        raise ValueError(
            f"device_ordinal is {device_ordinal!r}; it must be an integer of at "
            "least 0."
        )
    return device_ordinal


def _checked_depth(depth: int | None) -> int:
    if not depth:
        return 3
    if depth < 0 or depth > 255:
        raise ValueError(f"prefetch_depth is {depth}; it must be from 1 to 255.")
    return depth


def _endless(dataset: Any, prefetch_depth: int) -> Any:
    """Return the data with an error at their end: a device cannot run dry.

    The thread that tunes data sets is kept away. It sleeps up to ten seconds at a time,
    and so long would a closed iterator, and with it a stopped run, take to end.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return (
        dataset.concatenate(_failure(dataset.element_spec))
        .prefetch(prefetch_depth)
        .with_options(options)
    )


def _failure(spec: Any) -> Any:
    """Return a dataset of one element, which fails."""

    def fail(_: Any) -> Any:
        message = (
            "Infeed dataset iterator out of range: the program asks for more "
            "elements than the dataset has. Call repeat() on it."
        )
        with tf.control_dependencies([tf.debugging.Assert(False, [message])]):
            return tf.nest.map_structure(
                lambda part: tf.zeros(part.shape, part.dtype), spec
            )

    return tf.data.Dataset.from_tensors(0).map(fail)
