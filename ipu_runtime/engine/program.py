"""What all programs have in common: they run a piece of an epoch at a time."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf

from ipu_runtime.engine.micro_batch import MicroBatch


class Program(Protocol):
    """Something that trains, evaluates or predicts on consecutive batches."""

    @property
    def unit(self) -> int:
        """Batches that a piece must be a multiple of."""

    def run(self, source: Any, first: int, count: int) -> Any:
        """Work on some batches of an epoch; outputs of predicting come back."""


class CollectedResults:
    """Metric values after every single batch, for asynchronous callbacks."""

    def __init__(self, micro_batch: MicroBatch) -> None:
        self.names = sorted(micro_batch.results(micro_batch.load(), 0))

    def empty(self, count: Any) -> tuple[Any, ...]:
        """Return one array per metric, for a loop to carry."""
        return tuple(
            tf.TensorArray(tf.float32, size=count, element_shape=()) for _ in self.names
        )

    def write(
        self, arrays: tuple[Any, ...], index: Any, results: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return the arrays with one more value each."""
        return tuple(
            array.write(index, tf.cast(results[name], tf.float32))
            for name, array in zip(self.names, arrays, strict=True)
        )

    def by_batch(self, arrays: tuple[Any, ...]) -> list[dict[str, float]]:
        """Return the values as dictionaries, one for every batch."""
        columns = [array.numpy().tolist() for array in arrays]
        return [
            dict(zip(self.names, row, strict=True))
            for row in zip(*columns, strict=True)
        ]
