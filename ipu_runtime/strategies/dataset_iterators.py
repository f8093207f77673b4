"""`iter(dataset)` under a strategy: data that only a compiled function may read."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.patch_points import called_by_keras
from ipu_runtime.frameworks.patching import Patch
from ipu_runtime.strategies.strategy_stack import (
    device_iterators_wanted,
    host_iterators,
)


class IPUOwnedIterator:
    """Feeds the elements of a data set to functions that run on the IPU."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        check_static_shapes(dataset.element_spec)
        self._dataset = dataset
        with host_iterators():
            self._elements = iter(dataset)

    @property
    def element_spec(self) -> Any:
        """Types and shapes of the elements."""
        return self._dataset.element_spec

    def __iter__(self) -> IPUOwnedIterator:
        return self

    def __next__(self) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError(
                "Accessing dataset elements outside of a tf.function is not supported "
                "for an IPU iterator: call next() inside the function given to "
                "strategy.run, or create the strategy with "
                "enable_dataset_iterators=False."
            )
        return self._elements.get_next()

    def get_next(self) -> Any:
        """Return the next element; only inside a compiled function."""
        return next(self)

    def get_next_as_optional(self) -> Any:
        """Raise: the device cannot ask whether there is more data."""
        raise NotImplementedError(
            "get_next_as_optional is not supported by IPU iterators."
        )


def check_static_shapes(element_spec: Any) -> None:
    """Raise unless every shape is fully known, as a compiled program needs it."""
    for spec in tf.nest.flatten(element_spec):
        if not tf.TensorShape(spec.shape).is_fully_defined():
            raise ValueError(
                f"The shape {spec.shape} of a data set element is not fully defined. "
                "Use batch(..., drop_remainder=True)."
            )


def _iterating(original: Any) -> Any:
    def iterate(self: tf.data.Dataset) -> Any:
        if (
            device_iterators_wanted()
            and tf.executing_eagerly()
            # Models without extensions train on the host.
            and not called_by_keras()
        ):
            return IPUOwnedIterator(self)
        return original(self)

    return iterate


def device_dataset_iterators() -> AbstractContextManager[None]:
    """Let `iter(dataset)` make IPU iterators inside, in this thread."""
    return _iteration.applied()


_iteration = Patch(tf.data.Dataset, "__iter__", _iterating)
