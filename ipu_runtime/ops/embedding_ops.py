"""Lookups in tables on the device and on the host: `ipu.ops.embedding_ops`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import all_reduce

_PARTITIONS = ("TOKEN", "ENCODING")


def embedding_lookup(
    params: Any,
    ids: Any,
    serialization_factor: int = 1,
    indices_are_sorted: bool = False,
    name: str | None = None,
) -> Any:
    """Return rows of `params`; its gradient is dense, as on the device."""
    del indices_are_sorted
    params, ids = tf.convert_to_tensor(params), tf.convert_to_tensor(ids)
    rows, factor = params.shape.as_list()[0], int(serialization_factor)
    if factor < 1:
        raise ValueError(
            f"serialization_factor has to be at least 1, but was {factor}."
        )
    if rows is not None and rows % factor:
        raise ValueError(
            f"The serialization_factor ({factor}) must divide the size of the 0th "
            f"dimension of params ({rows})."
        )

    @tf.custom_gradient
    def lookup(table: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            return _summed(upstream, ids, tf.shape(table)[0])

        return tf.gather(table, ids, name=name), gradient

    return lookup(params)


def _summed(updates: Any, ids: Any, rows: Any) -> Any:
    """Return a table of zeros to which updates are added at their rows."""
    flat = tf.reshape(ids, [-1])
    inner = tf.shape(updates)[len(ids.shape) :]
    updates = tf.reshape(updates, tf.concat([tf.shape(flat), inner], 0))
    return tf.math.unsorted_segment_sum(updates, flat, rows)


class HostEmbeddingOptimizerSpec:
    """How a table on the host is updated: by gradient descent, in every backward pass.

    A learning rate of 0 leaves it as it is.
    """

    def __init__(self, learning_rate: float, optimizer_name: str | None = None) -> None:
        self._learning_rate = learning_rate
        self._optimizer_name = optimizer_name or "SGD"
        self._dummies: dict[str, Any] = {}

    def get_learning_rate(self) -> float:
        """Return the learning rate."""
        return self._learning_rate

    def create_lookup_instruction(
        self,
        embedding_tensor: Any,
        indices: Any,
        slot_vars: Any,
        partition_strategy: str,
        name: str,
    ) -> Any:
        """Return rows; what comes back for them as gradient updates the table."""
        del partition_strategy  # Tables are not split over replicas here.
        rows = tf.stop_gradient(tf.gather(embedding_tensor, indices))
        if self._learning_rate == 0:
            return rows

        @tf.custom_gradient
        def with_update(dummy: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                total = _summed(upstream, indices, tf.shape(embedding_tensor)[0])
                # The table is one for all replicas: each applies what all have found.
                total = all_reduce(total, "sum")
                done = self._update(embedding_tensor, total, slot_vars)
                with tf.control_dependencies([item for item in done if item]):
                    return tf.zeros_like(dummy)

            return tf.identity(rows), gradient

        # A backward pass goes where a trainable variable asks for its gradient.
        return with_update(tf.convert_to_tensor(self._dummy(embedding_tensor, name)))

    def _dummy(self, table: Any, name: str) -> Any:
        with tf.init_scope():
            if tf.executing_eagerly():
                if name not in self._dummies:
                    self._dummies[name] = tf.Variable(tf.zeros((), table.dtype))
                return self._dummies[name]
        with tf.compat.v1.variable_scope(name, reuse=tf.compat.v1.AUTO_REUSE):
            return tf.compat.v1.get_variable(
                "__dummy", [], table.dtype, use_resource=True
            )

    def _update(self, table: Any, gradient: Any, slot_vars: Any) -> list[Any]:
        del slot_vars
        step = tf.cast(self._learning_rate, gradient.dtype) * gradient
        return [table.assign_sub(step, read_value=False)]

    def create_register_instruction(
        self, embedding_tensor: Any, slot_vars: Any, name: str
    ) -> Any:
        """Return what connects the table; here programs reach it anyway."""
        del embedding_tensor, slot_vars, name
        return tf.no_op()

    def create_deregister_instruction(
        self, embedding_tensor: Any, slot_vars: Any, name: str
    ) -> Any:
        """Return what takes the table back: its values."""
        del slot_vars, name
        return tf.identity(embedding_tensor)

    def create_slot_variables(self, embedding_tensor: Any, name: str) -> list[Any]:
        """Return the variables that updating needs besides."""
        del embedding_tensor, name
        return []


class HostEmbeddingSGDGAOptimizerSpec(HostEmbeddingOptimizerSpec):
    """Gradient descent with the sum over several backward passes."""

    def __init__(self, learning_rate: float, accumulation_factor: int) -> None:
        super().__init__(learning_rate, "SGD+GA" if accumulation_factor > 1 else None)
        self._accumulation_factor = accumulation_factor

    def get_accumulation_factor(self) -> int:
        """Return how many backward passes one update takes together."""
        return self._accumulation_factor

    def create_slot_variables(self, embedding_tensor: Any, name: str) -> list[Any]:
        """Return the sum so far, and the number of backward passes in it."""
        if self._accumulation_factor <= 1:
            return []
        return [
            tf.compat.v1.get_variable(
                f"{name}/{slot}",
                shape,
                dtype,
                tf.compat.v1.zeros_initializer(),
                trainable=False,
                use_resource=True,
            )
            for slot, shape, dtype in (
                ("__sum", embedding_tensor.shape, embedding_tensor.dtype),
                ("__passes", (), tf.int32),
            )
        ]

    def _update(self, table: Any, gradient: Any, slot_vars: Any) -> list[Any]:
        if not slot_vars:
            return super()._update(table, gradient, slot_vars)
        sums, passes = slot_vars
        total, count = sums + gradient, passes + 1
        full = tf.equal(count, self._accumulation_factor)
        step = tf.where(full, total, tf.zeros_like(total))
        return [
            *super()._update(table, step, slot_vars),
            sums.assign(total - step, read_value=False),
            passes.assign(tf.where(full, 0, count), read_value=False),
        ]


class HostEmbedding:
    """A table on the host in which programs look rows up."""

    def __init__(
        self,
        name: str,
        embedding_tensor: Any,
        partition_strategy: str = "TOKEN",
        optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    ) -> None:
        if not tf.is_tensor(embedding_tensor):
            raise ValueError(
                "HostEmbedding embedding_tensor is not a tensorflow tensor, but "
                f"{embedding_tensor!r}."
            )
        if not isinstance(optimizer_spec, (type(None), HostEmbeddingOptimizerSpec)):
            raise ValueError(
                "HostEmbedding optimizer_spec is not a HostEmbeddingOptimizerSpec or "
                f"None, but {optimizer_spec!r}."
            )
        if partition_strategy not in _PARTITIONS:
            raise ValueError(
                f"Unknown partition strategy {partition_strategy!r}; valid are "
                f"{', '.join(_PARTITIONS)}."
            )
        spec = optimizer_spec or HostEmbeddingOptimizerSpec(0)
        if spec.get_learning_rate() != 0 and not isinstance(
            embedding_tensor, tf.Variable
        ):
            raise ValueError(
                "HostEmbedding embedding_tensor must be a variable to be trained, not "
                f"{embedding_tensor!r}."
            )
        self._name = name
        self._embedding_tensor = embedding_tensor
        self._partition_strategy = partition_strategy
        self._optimizer_spec = spec
        self._slot_vars = spec.create_slot_variables(embedding_tensor, name)

    def get_embedding_tensor(self) -> Any:
        """Return the table."""
        return self._embedding_tensor

    def register(self, session: Any = None) -> Any:
        """Return a context in which programs of the session may use the table."""
        if session is None and not tf.executing_eagerly():
            raise ValueError(
                "HostEmbedding.register requires a session when eager execution is "
                "disabled."
            )
        return self._registered(session)

    @contextmanager
    def _registered(self, session: Any) -> Iterator[HostEmbedding]:
        spec = self._optimizer_spec
        run = session.run if session is not None else lambda made: made
        parts = (self._embedding_tensor, self._slot_vars, self._name)
        run(spec.create_register_instruction(*parts))
        try:
            yield self
        finally:
            run(spec.create_deregister_instruction(*parts))

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raise: tables are registered, not called."""
        raise NotImplementedError(
            "HostEmbedding.__call__ is not supported. Please use the context manager "
            "created with HostEmbedding.register."
        )

    def lookup(self, indices: Any, clip_indices: bool = True) -> Any:
        """Return the rows at the indices, which are clipped to the table if asked."""
        indices = tf.convert_to_tensor(indices)
        rows, width = self._embedding_tensor.shape.as_list()
        if clip_indices:
            indices = tf.clip_by_value(indices, 0, rows - 1)
        found = self._optimizer_spec.create_lookup_instruction(
            self._embedding_tensor,
            tf.reshape(indices, [-1]),
            self._slot_vars,
            self._partition_strategy,
            self._name,
        )
        shape = tf.concat([tf.shape(indices), [width]], 0)
        return tf.ensure_shape(
            tf.reshape(found, shape), [*indices.shape.as_list(), width]
        )


def create_host_embedding(
    name: str,
    shape: Any,
    dtype: Any,
    partition_strategy: str = "TOKEN",
    optimizer_spec: HostEmbeddingOptimizerSpec | None = None,
    initializer: Any = None,
) -> HostEmbedding:
    """Return a table on the host that is a variable of this name."""
    table = tf.compat.v1.get_variable(
        name, shape, tf.as_dtype(dtype), initializer, use_resource=True
    )
    return HostEmbedding(name, table, partition_strategy, optimizer_spec)
