"""Data on their way from the host to the device: `ipu.ipu_infeed_queue`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.strategy_stack import default_device_ordinal

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
        self._host_dataset = dataset
        self._dataset = (
            dataset.concatenate(_failure(self._spec))
            .prefetch(self._prefetch_depth)
            .with_options(_without_tuning())
        )
        self._initializer_read = False
        self._ready = False
        self._dequeued = False
        self._eager = tf.executing_eagerly()
        if self._eager:
            self._resource = tf.raw_ops.AnonymousIteratorV3(**self._signature)
        else:
            self._graph = tf.compat.v1.get_default_graph()
            self._iterator = tf.compat.v1.data.make_initializable_iterator(
                self._dataset, shared_name=self._graph.unique_name(self.feed_name)
            )
            self._resource = self._iterator._iterator_resource

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
        if self._eager:
            self._ready = True
            return tf.raw_ops.MakeIterator(
                dataset=self._dataset._variant_tensor, iterator=self._resource
            )
        if self._initializer_read:
            raise ValueError(
                "The initializer of an infeed queue can only be read once; keep it."
            )
        self._initializer_read = True
        return self._iterator.initializer

    @property
    def deleter(self) -> Any:
        """Release the data; in a graph, an operation for it."""
        self._ready = False
        return tf.no_op() if not self._eager else None

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

    def _dequeue(self) -> Any:
        """Return the next element, inside a program."""
        if self._eager and not self._ready:
            raise tf.errors.FailedPreconditionError(
                None, None, f"Infeed {self.feed_name!r} has not been initialized."
            )
        self._dequeued = True
        flat = tf.raw_ops.IteratorGetNext(iterator=self._resource, **self._signature)
        for tensor, spec in zip(flat, tf.nest.flatten(self._spec), strict=True):
            tensor.set_shape(spec.shape)
        return tf.nest.pack_sequence_as(self._spec, flat)


IPUIterator = IPUInfeedQueue


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


def _without_tuning() -> Any:
    """Keep the thread away that tunes data sets: a closed iterator waits for it.

    It sleeps up to ten seconds at a time, and so long would a stopped run take to end.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def _failure(spec: Any) -> Any:
    """Return a dataset of one element, which fails: a device cannot run dry."""

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
