"""Programs of Keras models: one loop over consecutive batches inside TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import (
    ExecutorChoice,
    Look,
    graph_executor,
)
from ipu_runtime.engine.build.programs.executor_choice import ChosenFunction
from ipu_runtime.engine.build.programs.metric_results import CollectedResults
from ipu_runtime.engine.build.programs.micro_batch import LoopState, MicroBatch
from ipu_runtime.engine.feeds.feed import read_batch
from ipu_runtime.engine.numerics.half_models import emulated
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.keras_state import stored
from ipu_runtime.frameworks.tensorflow_graphs import traced
from ipu_runtime.frameworks.types import Structure, Tensor

Rows = dict[int, Tensor]
"""Metric values after a batch, by its number among those of one unit."""


class BatchLoop:
    """A loop that carries the state of all replicas from unit to unit of batches.

    Batch i belongs to replica i modulo replicas.
    """

    peak_stash: tuple[int, ...] = ()

    def __init__(
        self,
        micro_batch: MicroBatch,
        refused: str,
        collected: CollectedResults | None,
        unit: int = 1,
    ) -> None:
        """Take what runs in the loop.

        Args:
            micro_batch: What a replica does with a batch.
            refused: Why XLA must not compile it; empty if it may.
            collected: Says which metric values after every batch are wanted.
            unit: Batches of one iteration.
        """
        self.unit = unit
        self.state = micro_batch.state
        self._micro_batch = micro_batch
        self._collected = collected
        self._run = ChosenFunction(emulated(self._loop, micro_batch.half), refused)

    @property
    def choice(self) -> ExecutorChoice | None:
        """How it runs here; None until its first piece."""
        return self._run.choice

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Run whole units; return metric values by batch if wanted, else outputs."""
        values, outputs = self._run(source, tf.constant(first), tf.constant(count))
        return self._collected.rows(values) if self._collected else outputs

    def one_unit(
        self, source: Any, batch: Tensor, state: LoopState
    ) -> tuple[LoopState, Rows, Sequence[Tensor]]:
        """Work on the batches of a unit; return what is new, and outputs."""
        raise NotImplementedError

    def load(self) -> LoopState:
        """Return the state that a loop starts with."""
        return self._micro_batch.load()

    def save(self, state: LoopState) -> None:
        """Store the state that a loop ends with."""
        self._micro_batch.save(state)

    def output_arrays(self, units: Tensor) -> tuple[Any, tuple[tf.TensorArray, ...]]:
        """Return the structure of outputs, and an array for each; none by default."""
        return None, ()

    def _loop(self, source: Any, first: Tensor, count: Tensor) -> Any:
        structure, arrays = self.output_arrays(count // self.unit)
        width = len(self._collected.names) if self._collected else 0
        values = tf.TensorArray(
            tf.float32, size=count if self._collected else 0, element_shape=(width,)
        )

        def body(batch: Tensor, state: LoopState, values: Any, arrays: Any) -> Any:
            state, rows, outputs = self.one_unit(source, batch, state)
            for place, row in sorted(rows.items()):
                values = values.write(batch - first + place, row)
            arrays = tuple(
                array.write((batch - first) // self.unit, output)
                for array, output in zip(arrays, outputs, strict=True)
            )
            return batch + self.unit, state, values, arrays

        _, state, values, arrays = tf.while_loop(
            lambda batch, *_: batch < first + count,
            body,
            (first, self.load(), values, arrays),
            parallel_iterations=1,
        )
        self.save(state)
        outputs = [array.concat() for array in arrays]
        packed = tree.pack_sequence_as(structure, outputs) if arrays else None
        return values.stack(), packed

    def _rows(self, state: LoopState, replica: Tensor, place: int = 0) -> Rows:
        """Return the metric values after a batch, if they are wanted."""
        if self._collected is None:
            return {}
        return {place: self._collected.values(self._micro_batch, state, replica)}


class TrainLoop(BatchLoop):
    """Trains a model that is not pipelined.

    A piece may end in the middle of an update: the accumulators stay.
    """

    def __init__(
        self,
        micro_batch: MicroBatch,
        accumulation: Accumulation,
        refused: str,
        collected: CollectedResults | None,
    ) -> None:
        super().__init__(micro_batch, refused, collected)
        self._accumulation = accumulation
        self._weights = list(micro_batch.model.trainable_weights)
        self._accumulators = [
            tf.Variable(zeros, trainable=False)
            for zeros in (
                accumulation.zeros(self._weights) if accumulation.total > 1 else ()
            )
        ]

    def load(self) -> LoopState:
        """Return the state that a loop starts with."""
        accumulators = tuple(tf.convert_to_tensor(item) for item in self._accumulators)
        return super().load()._replace(accumulators=accumulators)

    def save(self, state: LoopState) -> None:
        """Store the state that a loop ends with."""
        super().save(state)
        for store, value in zip(self._accumulators, state.accumulators, strict=True):
            store.assign(value)

    def one_unit(
        self, source: Any, batch: Tensor, state: LoopState
    ) -> tuple[LoopState, Rows, Sequence[Tensor]]:
        """Train on a batch."""
        data = read_batch(source, batch)
        # Nothing may happen for a batch that a data set does not have.
        needed = tree.flatten(data) if isinstance(source, tf.data.Iterator) else ()
        replica = batch % self._accumulation.replicas
        with tf.control_dependencies(needed):
            state = self._train_on(data, batch, state)
        return state, self._rows(state, replica), ()

    def _train_on(self, data: Structure, batch: Tensor, state: LoopState) -> LoopState:
        total = self._accumulation.total
        optimizer = self._micro_batch.model.optimizer
        index = batch % total
        updates = tf.cast(stored(optimizer.iterations), tf.int64)
        accumulators = state.accumulators
        gradients, captured, state = self._micro_batch.train(
            state,
            data,
            batch % self._accumulation.replicas,
            self._accumulation.counter(updates, index),
        )
        if not self._weights:
            return state._replace(accumulators=accumulators)
        if total == 1:
            self._micro_batch.apply(gradients, self._weights, captured)
            return state
        added = self._accumulation.add(accumulators, gradients, index)

        def update() -> list[Tensor]:
            self._micro_batch.apply(added, self._weights, captured)
            return [tf.zeros_like(item) for item in added]

        left = tf.cond(tf.equal(index, total - 1), update, lambda: added)
        return state._replace(accumulators=tuple(left))


class TestLoop(BatchLoop):
    """Lets the metrics see consecutive batches."""

    def one_unit(
        self, source: Any, batch: Tensor, state: LoopState
    ) -> tuple[LoopState, Rows, Sequence[Tensor]]:
        """Evaluate a batch."""
        replica = batch % self._micro_batch.replicas
        data = read_batch(source, batch)
        state = self._micro_batch.test(state, data, replica, batch)
        return state, self._rows(state, replica), ()


class PredictLoop:
    """Returns the model's outputs for consecutive batches.

    What a model returns is known when its first batch is traced, before the loop.
    """

    unit = 1
    peak_stash = ()
    choice = graph_executor("outputs are collected")

    def __init__(self, micro_batch: MicroBatch) -> None:
        self._micro_batch = micro_batch
        self.state = micro_batch.state
        self._run = traced(emulated(self._loop, micro_batch.half))

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Return the outputs, batches stacked along a new first axis."""
        return self._run(source, tf.constant(first), tf.constant(count))

    def _loop(self, source: Any, first: Tensor, count: Tensor) -> Structure:
        state = self._micro_batch.load()

        def one(batch: Tensor) -> Structure:
            return self._micro_batch.predict(
                state,
                read_batch(source, batch),
                batch % self._micro_batch.replicas,
                batch,
            )

        first_outputs = one(first)
        flat = tree.flatten(first_outputs)
        arrays = tuple(
            tf.TensorArray(item.dtype, size=count, element_shape=item.shape).write(
                0, item
            )
            for item in flat
        )

        def body(batch: Tensor, arrays: Any) -> Any:
            outputs = tree.flatten(one(batch))
            return batch + 1, tuple(
                array.write(batch - first, item)
                for array, item in zip(arrays, outputs, strict=True)
            )

        _, arrays = tf.while_loop(
            lambda batch, _: batch < first + count,
            body,
            (first + 1, arrays),
            parallel_iterations=1,
        )
        return tree.pack_sequence_as(first_outputs, [item.stack() for item in arrays])
