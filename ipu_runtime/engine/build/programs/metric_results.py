"""Metric values of the replicas, and what is made of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.micro_batch import LoopState, MicroBatch
from ipu_runtime.engine.describe.model_options import ReplicatedMetricReductionMethod
from ipu_runtime.frameworks.tensorflow_graphs import traced

Logs = dict[str, Any]
"""Metric values by name: numbers, or lists of one per replica."""


class Results:
    """Reads the metrics of all replicas in one call."""

    def __init__(self, micro_batch: MicroBatch) -> None:
        self._micro_batch = micro_batch
        self._names: list[str] = []
        self._read = traced(self._all)

    def by_replica(self) -> list[dict[str, float]]:
        """Return the metric values of every replica."""
        return [
            {
                name: value.numpy().item() if value.shape.rank == 0 else value.numpy()
                for name, value in zip(self._names, values, strict=True)
            }
            for values in self._read()
        ]

    def _all(self) -> list[list[Any]]:
        state = self._micro_batch.load()
        results = [
            self._micro_batch.results(state, replica)
            for replica in range(self._micro_batch.replicas)
        ]
        # TensorFlow would return dictionaries in alphabetical order.
        self._names = list(results[0])
        return [
            [tf.convert_to_tensor(item) for item in one.values()] for one in results
        ]


def reduce_results(
    by_replica: list[dict[str, float]], method: ReplicatedMetricReductionMethod
) -> Logs:
    """Return one value (or list) per metric; NONE takes the last replica's."""
    methods = ReplicatedMetricReductionMethod
    if method is methods.NONE:
        return dict(by_replica[-1])
    columns = {name: [values[name] for values in by_replica] for name in by_replica[-1]}
    if method is methods.LIST:
        return dict(columns)
    divisor = len(by_replica) if method is methods.MEAN else 1
    return {name: sum(values) / divisor for name, values in columns.items()}


class AveragedResults:
    """One value per pipeline run: the mean of the last replica's running values."""

    def __init__(self, micro_batches: int, replicas: int) -> None:
        self._micro_batches = micro_batches
        self._replicas = replicas
        self._run: list[dict[str, float]] = []
        self._mean: Logs = {}

    def add(self, by_batch: list[Logs]) -> None:
        """Take in the values after consecutive batches, replicas running fastest."""
        self._run += by_batch[self._replicas - 1 :: self._replicas]
        while len(self._run) >= self._micro_batches:
            done = self._run[: self._micro_batches]
            del self._run[: self._micro_batches]
            self._mean = {
                name: sum(values[name] for values in done) / len(done)
                for name in done[0]
            }

    def logs(self) -> Logs:
        """Return the values of the last complete run."""
        return dict(self._mean)


def single_values(logs: Logs) -> dict[str, float]:
    """Return numbers to show: the mean where there is one value per replica."""
    return {
        name: sum(value) / len(value) if isinstance(value, list) else value
        for name, value in logs.items()
    }


class CollectedResults:
    """Metric values after every single batch, for asynchronous callbacks."""

    def __init__(self, micro_batch: MicroBatch) -> None:
        self.names = sorted(micro_batch.results(micro_batch.load(), 0))

    def values(self, micro_batch: MicroBatch, state: LoopState, replica: Any) -> Any:
        """Return the metric values of a replica as one tensor."""
        results = micro_batch.results(state, replica)
        return tf.stack([tf.cast(results[name], tf.float32) for name in self.names])

    def rows(self, stacked: Any) -> list[dict[str, float]]:
        """Return stacked `values` as dictionaries, one for every batch."""
        return [
            dict(zip(self.names, row, strict=True))
            for row in stacked.numpy().reshape(-1, len(self.names)).tolist()
        ]
