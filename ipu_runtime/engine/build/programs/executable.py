"""What all executables have in common: they run a piece of an epoch at a time."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow as tf

from ipu_runtime.engine.build.programs.micro_batch import Carry, MicroBatch


class Executable(Protocol):
    """What trains, evaluates or predicts on consecutive batches, with TensorFlow."""

    @property
    def unit(self) -> int:
        """Batches that a piece must be a multiple of."""

    def run(self, source: Any, first: int, count: int) -> Any:
        """Work on some batches of an epoch; outputs of predicting come back."""


class CollectedResults:
    """Metric values after every single batch, for asynchronous callbacks."""

    def __init__(self, micro_batch: MicroBatch) -> None:
        self.names = sorted(micro_batch.results(micro_batch.load(), 0))

    def values(self, micro_batch: MicroBatch, carry: Carry, replica: Any) -> Any:
        """Return the metric values of a replica as one tensor."""
        results = micro_batch.results(carry, replica)
        return tf.stack([tf.cast(results[name], tf.float32) for name in self.names])

    def rows(self, stacked: Any) -> list[dict[str, float]]:
        """Return stacked `values` as dictionaries, one for every batch."""
        return [
            dict(zip(self.names, row, strict=True))
            for row in stacked.numpy().reshape(-1, len(self.names)).tolist()
        ]


def empty_results(collected: CollectedResults | None, count: Any) -> Any:
    """Return an array for the metric values of batches, empty if not wanted."""
    width = len(collected.names) if collected else 0
    return tf.TensorArray(
        tf.float32, size=count if collected else 0, element_shape=(width,)
    )
