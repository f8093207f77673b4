"""Results on their way from the device to the host: `ipu.ipu_outfeed_queue`."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from enum import Enum
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import mark_operation, mark_shared
from ipu_runtime.engine.build.replicas.device_loop import when_replicas_known
from ipu_runtime.engine.build.tracing_context import traced_replica
from ipu_runtime.engine.run.script_program import (
    ScriptProgram,
    named_parts,
    traced_program,
)
from ipu_runtime.ipu_infeed_queue import checked_ordinal
from ipu_runtime.system.device_state import current_state

_CAPACITY = 2**31 - 1


class IPUOutfeedMode(Enum):
    """What the host gets of everything that was enqueued."""

    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue:
    """Collects tensors from programs.

    Accepts the arguments of the older API too: a name first, `outfeed_all`, a
    replication factor and `io_batch_size`.
    """

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | str | None = None,
        device_ordinal: int | IPUOutfeedMode | None = None,
        buffer_depth: int = 3,
        optimise_latency: bool = False,
        *,
        feed_name: str | None = None,
        outfeed_all: bool | None = None,
        replication_factor: int = 1,
        io_batch_size: int = 1,
    ) -> None:
        del optimise_latency, replication_factor, io_batch_size
        if isinstance(outfeed_mode, str):
            outfeed_mode, feed_name = None, outfeed_mode
        if isinstance(device_ordinal, IPUOutfeedMode):
            device_ordinal, outfeed_mode = None, device_ordinal
        if outfeed_mode is None:
            last = outfeed_all is False
            outfeed_mode = IPUOutfeedMode.LAST if last else IPUOutfeedMode.ALL
        if not isinstance(outfeed_mode, IPUOutfeedMode):
            raise ValueError(
                f"outfeed_mode is {outfeed_mode!r}; it must be an IPUOutfeedMode: "
                "ALL or LAST."
            )
        if buffer_depth <= 0:
            raise ValueError(f"buffer_depth is {buffer_depth}; it must be at least 1.")
        self.feed_name = feed_name or "outfeed"
        self._mode = outfeed_mode
        self._device_ordinal = checked_ordinal(device_ordinal)
        self._structure: Any = None
        self._shapes: list[Any] = []
        self._queue: Any = None
        self._home: Any = None
        self.replicas = 1
        """Replicas that enqueue together, once the program is built."""
        self._one_by_one = 0
        """Replicas of a Keras model that enqueue one after the other; 0: none do."""
        self._device_known = False
        """Whether the device was configured when the program was built."""
        self._graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        self._program: ScriptProgram | None = None

    @property
    def outfeed_mode(self) -> IPUOutfeedMode:
        """What the host gets."""
        return self._mode

    @property
    def enqueued(self) -> bool:
        """Whether a program in the current graph enqueues into this queue."""
        if tf.executing_eagerly():
            return self._queue is not None
        graph = tf.compat.v1.get_default_graph()
        return any(graph in _graphs_around(inner) for inner in self._graphs)

    def enqueue(self, tensors: Any) -> Any:
        """Return an operation that sends tensors, a list or a dict to the host."""
        graph = tf.compat.v1.get_default_graph()
        if graph in self._graphs:
            raise ValueError(
                "An outfeed can only be enqueued once. Put several tensors into one "
                "tuple, list or dict."
            )
        self._graphs.add(graph)
        return self.enqueue_more(tensors)

    def enqueue_more(self, tensors: Any) -> Any:
        """Enqueue, also where a program does it several times, as pipelines do."""
        graph = tf.compat.v1.get_default_graph()
        self._graphs.add(graph)
        flat = [tf.convert_to_tensor(item) for item in tf.nest.flatten(tensors)]
        self._structure = tf.nest.map_structure(lambda _: None, tensors)
        self._shapes = [item.shape for item in flat]
        self._device_known = current_state().configured
        flat = self._with_replicas(flat)
        dtypes = [item.dtype for item in flat]
        home = None if _eager_outside() else list(_graphs_around(graph))[-1]
        if (
            self._queue is None
            or dtypes != list(self._queue.dtypes)
            or home is not self._home
        ):
            self._home = home
            with tf.init_scope():
                self._queue = tf.queue.FIFOQueue(
                    _CAPACITY, dtypes, shared_name=None, name=self.feed_name
                )
        when_replicas_known(self._set_replicas)
        self._program = traced_program()
        if self._program is not None:
            self._program.fed_out = True
        controls = [self._drop_older()] if self._mode is IPUOutfeedMode.LAST else []
        with tf.control_dependencies(controls):
            operation = self._queue.enqueue(flat)
        mark_operation(operation, "enqueue")
        return operation

    def dequeue(self, wait_for_completion: bool = False) -> Any:
        """Return everything enqueued since the last call, or the last of it."""
        del wait_for_completion  # Programs are complete when their call returns.
        if self._queue is None:
            raise ValueError(
                "Trying to dequeue an outfeed which has not been enqueued."
            )
        if self._mode is IPUOutfeedMode.LAST:
            if tf.executing_eagerly() and int(self._queue.size()) == 0:
                raise tf.errors.FailedPreconditionError(
                    None, None, f"Nothing new in outfeed {self.feed_name!r}."
                )
            flat = [array[-1] for array in self._taken()]
        else:
            flat = self._taken()
        self._tell(flat)
        return tf.nest.pack_sequence_as(self._structure, flat)

    def __iter__(self) -> Iterator[Any]:
        if not tf.executing_eagerly() or self._mode is not IPUOutfeedMode.ALL:
            raise RuntimeError(
                "Only an outfeed in ALL mode can be iterated over, in eager mode."
            )
        if self._queue is None:
            return
        if self._one_by_one:
            rows: Any = zip(*self._taken(), strict=True)
        else:
            size = int(self._queue.size())
            rows = (tf.nest.flatten(self._queue.dequeue()) for _ in range(size))
        for flat in rows:
            yield tf.nest.pack_sequence_as(self._structure, list(flat))

    @property
    def deleter(self) -> Any:
        """Free the queue; in a graph, an operation for it."""
        if self._queue is None:
            return tf.no_op() if not tf.executing_eagerly() else None
        return self._queue.close(cancel_pending_enqueues=True)

    def _tell(self, flat: list[Any]) -> None:
        """Tell who watches the program of what is dequeued: the single numbers."""
        if self._program is None:
            return
        names = [name or "output" for name, _ in named_parts("", self._structure)]
        numbers = {
            name: part
            for name, part, shape in zip(names, flat, self._shapes, strict=True)
            if shape.rank == 0
        }
        if tf.executing_eagerly():
            self._program.took(numbers)
        else:
            named = {tensor.name: name for name, tensor in numbers.items()}
            self._program.dequeued.update(named)

    def _with_replicas(self, flat: list[Any]) -> list[Any]:
        """Return what a Keras model enqueues, and for which replica."""
        traced = traced_replica()
        self._one_by_one = 0
        if traced is None or traced.replicas == 1:
            return flat
        if traced.number is None:
            self.replicas = traced.replicas
            return [tf.stack([item] * traced.replicas) for item in flat]
        self.replicas, self._one_by_one = 1, traced.replicas
        return [*flat, tf.cast(traced.number, tf.int32)]

    def _set_replicas(self, replicas: int) -> None:
        self.replicas = replicas

    def _drop_older(self) -> Any:
        """Empty the queue: once for all replicas, who would else wait for a second."""

        def drop() -> Any:
            element = self._queue.dequeue()
            with tf.control_dependencies(tf.nest.flatten(element)):
                return tf.constant(True)

        traced = traced_replica()
        if self._one_by_one and traced is not None:
            # Whatever is there when the first replica enqueues is older.
            return tf.while_loop(
                lambda _: tf.logical_and(traced.number == 0, self._queue.size() > 0),
                lambda _: [drop()],
                [tf.constant(False)],
            )[0]
        graph = tf.compat.v1.get_default_graph()
        before = set(graph.get_operations())
        dropped = tf.cond(self._queue.size() > 0, drop, lambda: tf.constant(False))
        for operation in graph.get_operations():
            if operation not in before:
                mark_shared(operation)
        return dropped

    def _dequeued_shape(self, shape: Any) -> Any:
        """Return the shape of an element; a device to come may have more replicas."""
        if not (tf.executing_eagerly() or self._device_known):
            return tf.TensorShape(None)
        return shape if self.replicas == 1 else [self.replicas, *shape]

    def _taken(self) -> list[Any]:
        """Return the queue's elements, stacked, those of replicas side by side."""
        if not self._one_by_one:
            return self._take_all()
        *flat, replica = self._take_all()
        if self._mode is IPUOutfeedMode.LAST:
            places = [
                tf.where(replica == item)[-1:] for item in range(self._one_by_one)
            ]
            order = tf.reshape(tf.stack(places), [self._one_by_one])
        else:
            order = tf.argsort(replica, stable=True)
        return [self._side_by_side(tf.gather(array, order)) for array in flat]

    def _side_by_side(self, array: Any) -> Any:
        by_replica = tf.reshape(array, [self._one_by_one, -1, *array.shape[1:]])
        return tf.experimental.numpy.swapaxes(by_replica, 0, 1)

    def _take_all(self) -> list[Any]:
        """Return the queue's elements, stacked, and leave it empty."""
        dtypes = list(self._queue.dtypes)
        shapes = [self._dequeued_shape(shape) for shape in self._shapes]
        if self._one_by_one:
            shapes.append(tf.TensorShape([]))
        size = self._queue.size()
        arrays = [
            tf.TensorArray(dtype, size=size, element_shape=shape)
            for dtype, shape in zip(dtypes, shapes, strict=True)
        ]

        def take(index: Any, *arrays: Any) -> Any:
            element = self._queue.dequeue()
            flat = element if isinstance(element, list) else [element]
            return index + 1, *(
                array.write(index, tf.ensure_shape(part, shape))
                for array, part, shape in zip(arrays, flat, shapes, strict=True)
            )

        _, *filled = tf.while_loop(
            lambda index, *_: index < size,
            take,
            [tf.constant(0), *arrays],
            parallel_iterations=1,
        )
        return [array.stack() for array in filled]


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """An outfeed that lives only as long as the object; eager mode only."""

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
    ) -> None:
        if not tf.executing_eagerly():
            raise RuntimeError("ScopedIPUOutfeedQueue only works in eager mode.")
        super().__init__(outfeed_mode, device_ordinal)


def _eager_outside() -> bool:
    with tf.init_scope():
        return bool(tf.executing_eagerly())


def _graphs_around(graph: Any) -> Iterator[Any]:
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)
