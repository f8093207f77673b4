"""What training and inference pipelines read, and where they write metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.stage_functions import StageFunctions
from ipu_runtime.engine.build.programs.executable import CollectedResults
from ipu_runtime.engine.build.programs.micro_batch import Carry
from ipu_runtime.engine.feeds.feed import read_batch


def result_writer(
    functions: StageFunctions,
    collected: CollectedResults | None,
    replica: int,
    replicas: int,
    rows: dict[int, Any],
) -> Callable[[int, Carry], None]:
    """Return what puts the metrics after a micro-batch into `rows`, if wanted."""
    if collected is None:
        return lambda micro_batch, carry: None

    def write(micro_batch: int, carry: Carry) -> None:
        values = collected.values(functions.micro_batch, carry, replica)
        rows[micro_batch * replicas + replica] = values

    return write


class Batches:
    """Consecutive batches that may be read in another order."""

    def __init__(self, source: Any, first: Any) -> None:
        self._source = source
        self._first = first
        self._next = 0
        self._waiting: dict[int, Any] = {}

    def read(self, index: int) -> Any:
        """Return a batch; an iterator is read on in its own order."""
        if not isinstance(self._source, tf.data.Iterator):
            return read_batch(self._source, self._first + index)
        while index not in self._waiting:
            self._waiting[self._next] = self._source.get_next()
            self._next += 1
        return self._waiting.pop(index)
