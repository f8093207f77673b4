"""Moving statistics that the processes of a job have in common."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.programs.micro_batch import MicroBatch
from ipu_runtime.engine.build.programs.tracing import traced
from ipu_runtime.engine.build.replicas.instance_exchange import (
    lost_instances_named,
    mean_over_instances,
)
from ipu_runtime.frameworks.keras_state import stored


class SharedStatistics:
    """Averages the statistics of all processes, as those of replicas are averaged."""

    def __init__(self, micro_batch: MicroBatch) -> None:
        self._instance = micro_batch.instance
        self._stores: list[Any] = [
            store
            for store in map(stored, micro_batch.statistics.variables)
            if store.dtype.is_floating
        ]
        self._run = traced(self._assign_means)

    def keep_mean(self) -> None:
        """Let every process have the mean; all of them call it equally often."""
        if self._instance.count > 1 and self._stores:
            with lost_instances_named(self._instance):
                self._run()

    def _assign_means(self) -> None:
        values = [store.read_value() for store in self._stores]
        means = mean_over_instances(values, self._instance)
        for store, mean in zip(self._stores, means, strict=True):
            store.assign(mean)
