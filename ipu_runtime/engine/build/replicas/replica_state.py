"""Values that every replica has its own copy of: metrics and moving statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_state import stored


class ReplicaState:
    """Keras variables of which each replica has a copy.

    With one replica the Keras variables are the copy.
    """

    def __init__(
        self,
        variables: Sequence[Any],
        replicas: int,
        stores: Sequence[Any] | None = None,
    ) -> None:
        self.variables = tuple(variables)
        self.replicas = replicas
        self.stores = tuple(
            stores
            if stores is not None
            else (_store(variable, replicas) for variable in self.variables)
        )

    def part(self, indices: Sequence[int]) -> ReplicaState:
        """Return the state of some of the variables."""
        return ReplicaState(
            [self.variables[index] for index in indices],
            self.replicas,
            [self.stores[index] for index in indices],
        )

    def spread(self) -> None:
        """Give every replica the value of the Keras variable."""
        if self.replicas > 1:
            for variable, store in zip(self.variables, self.stores, strict=True):
                store.assign(tf.stack([stored(variable)] * self.replicas))

    def keep_last(self) -> None:
        """Let the Keras variable have the last replica's value."""
        if self.replicas > 1:
            for variable, store in zip(self.variables, self.stores, strict=True):
                stored(variable).assign(store[-1])

    def keep_mean(self) -> None:
        """Let the Keras variable have the mean over replicas.

        Every replica moves its own statistics during an execution; the mean of them is
        what a model keeps, and what all replicas begin the next execution with.
        """
        if self.replicas > 1:
            for variable, store in zip(self.variables, self.stores, strict=True):
                if stored(variable).dtype.is_floating:
                    stored(variable).assign(tf.reduce_mean(store, axis=0))
                else:
                    stored(variable).assign(store[0])

    def load(self) -> tuple[Any, ...]:
        """Return the values of all replicas as tensors, for a loop to carry."""
        return tuple(tf.convert_to_tensor(store) for store in self.stores)

    def save(self, values: Sequence[Any]) -> None:
        """Store what a loop has made of them."""
        for store, value in zip(self.stores, values, strict=True):
            store.assign(value)

    def of_replica(self, values: Sequence[Any], replica: Any) -> list[tuple[Any, Any]]:
        """Return the mapping for a stateless scope that stands for one replica."""
        if self.replicas == 1:
            return list(zip(self.variables, values, strict=True))
        return [
            (variable, value[replica])
            for variable, value in zip(self.variables, values, strict=True)
        ]

    def updated(
        self, values: Sequence[Any], replica: Any, scope: Any
    ) -> tuple[Any, ...]:
        """Return the values after what a stateless scope has assigned."""
        new = [scope.get_current_value(variable) for variable in self.variables]
        if self.replicas == 1:
            return tuple(
                tf.ensure_shape(tf.cast(tensor, value.dtype), value.shape)
                for tensor, value in zip(new, values, strict=True)
            )
        return tuple(
            tf.tensor_scatter_nd_update(
                value, [[replica]], [tf.cast(tensor, value.dtype)]
            )
            for tensor, value in zip(new, values, strict=True)
        )


def _store(variable: Any, replicas: int) -> Any:
    if replicas == 1:
        return stored(variable)
    stacked = tf.stack([stored(variable)] * replicas)
    return tf.Variable(stacked, trainable=False, name="replicas")
