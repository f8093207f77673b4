"""A model that is not pipelined: one loop over micro-batches inside TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import (
    ExecutorChoice,
    Look,
    graph_executor,
)
from ipu_runtime.engine.build.programs.executor_choice import (
    ChosenFunction,
)
from ipu_runtime.engine.build.programs.metric_results import (
    CollectedResults,
    empty_results,
)
from ipu_runtime.engine.build.programs.micro_batch import LoopState, MicroBatch
from ipu_runtime.engine.feeds.feed import read_batch
from ipu_runtime.engine.numerics.half_models import emulated
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.keras_state import stored
from ipu_runtime.frameworks.tensorflow_graphs import traced


class TrainLoop:
    """Trains on consecutive batches; batch i belongs to replica i modulo replicas.

    A piece may end in the middle of an update: the accumulators are kept.
    """

    unit = 1
    peak_stash = ()

    def __init__(
        self,
        micro_batch: MicroBatch,
        accumulation: Accumulation,
        refused: str,
        collected: CollectedResults | None = None,
    ) -> None:
        self._micro_batch = micro_batch
        self._accumulation = accumulation
        self.state = micro_batch.state
        self._collected = collected
        self._weights = list(micro_batch.model.trainable_weights)
        self._accumulators = [
            tf.Variable(zeros, trainable=False)
            for zeros in (
                accumulation.zeros(self._weights) if accumulation.total > 1 else ()
            )
        ]
        self._run = ChosenFunction(emulated(self._loop, micro_batch.half), refused)

    @property
    def choice(self) -> ExecutorChoice | None:
        """How it runs here; None until its first piece."""
        return self._run.choice

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Train on some batches; return metric values by batch if they are wanted."""
        values = self._run(source, tf.constant(first), tf.constant(count))
        return self._collected.rows(values) if self._collected else None

    def _loop(self, source: Any, first: Any, count: Any) -> Any:
        state = self._micro_batch.load()
        accumulators = tuple(tf.convert_to_tensor(item) for item in self._accumulators)
        values = empty_results(self._collected, count)

        def body(
            batch: Any, accumulators: Any, statistics: Any, metrics: Any, values: Any
        ) -> Any:
            accumulators, state = self._step(
                source, batch, accumulators, LoopState(statistics, metrics)
            )
            if self._collected:
                replica = batch % self._accumulation.replicas
                row = self._collected.values(self._micro_batch, state, replica)
                values = values.write(batch - first, row)
            return batch + 1, accumulators, state.statistics, state.metrics, values

        _, accumulators, statistics, metrics, values = tf.while_loop(
            lambda batch, *_: batch < first + count,
            body,
            (first, accumulators, state.statistics, state.metrics, values),
            parallel_iterations=1,
        )
        self._micro_batch.save(LoopState(statistics, metrics))
        for store, value in zip(self._accumulators, accumulators, strict=True):
            store.assign(value)
        return values.stack()

    def _step(
        self, source: Any, batch: Any, accumulators: tuple[Any, ...], state: LoopState
    ) -> tuple[tuple[Any, ...], LoopState]:
        data = read_batch(source, batch)
        # Nothing may happen for a batch that a data set does not have.
        needed = tree.flatten(data) if isinstance(source, tf.data.Iterator) else ()
        with tf.control_dependencies(needed):
            return self._train_on(data, batch, accumulators, state)

    def _train_on(
        self, data: Any, batch: Any, accumulators: tuple[Any, ...], state: LoopState
    ) -> tuple[tuple[Any, ...], LoopState]:
        total = self._accumulation.total
        optimizer = self._micro_batch.model.optimizer
        index = batch % total
        updates = tf.cast(stored(optimizer.iterations), tf.int64)
        gradients, captured, state = self._micro_batch.train(
            state,
            data,
            batch % self._accumulation.replicas,
            self._accumulation.counter(updates, index),
        )
        if not self._weights:
            return accumulators, state
        if total == 1:
            self._micro_batch.apply(gradients, self._weights, captured)
            return accumulators, state
        added = self._accumulation.add(accumulators, gradients, index)

        def update() -> list[Any]:
            self._micro_batch.apply(added, self._weights, captured)
            return [tf.zeros_like(item) for item in added]

        kept = tf.cond(tf.equal(index, total - 1), update, lambda: added)
        return tuple(kept), state


class TestLoop:
    """Lets the metrics see consecutive batches."""

    unit = 1
    peak_stash = ()

    def __init__(
        self,
        micro_batch: MicroBatch,
        refused: str,
        collected: CollectedResults | None = None,
    ) -> None:
        self._micro_batch = micro_batch
        self.state = micro_batch.state
        self._collected = collected
        self._run = ChosenFunction(emulated(self._loop, micro_batch.half), refused)

    @property
    def choice(self) -> ExecutorChoice | None:
        """How it runs here; None until its first piece."""
        return self._run.choice

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Evaluate some batches; return metric values by batch if they are wanted."""
        values = self._run(source, tf.constant(first), tf.constant(count))
        return self._collected.rows(values) if self._collected else None

    def _loop(self, source: Any, first: Any, count: Any) -> Any:
        state = self._micro_batch.load()
        values = empty_results(self._collected, count)

        def body(batch: Any, statistics: Any, metrics: Any, values: Any) -> Any:
            replica = batch % self._micro_batch.replicas
            state = self._micro_batch.test(
                LoopState(statistics, metrics),
                read_batch(source, batch),
                replica,
                batch,
            )
            if self._collected:
                row = self._collected.values(self._micro_batch, state, replica)
                values = values.write(batch - first, row)
            return batch + 1, state.statistics, state.metrics, values

        _, statistics, metrics, values = tf.while_loop(
            lambda batch, *_: batch < first + count,
            body,
            (first, state.statistics, state.metrics, values),
            parallel_iterations=1,
        )
        self._micro_batch.save(LoopState(statistics, metrics))
        return values.stack()


class PredictLoop:
    """Returns the model's outputs for consecutive batches."""

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

    def _loop(self, source: Any, first: Any, count: Any) -> Any:
        state = self._micro_batch.load()

        def one(batch: Any) -> Any:
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

        def body(batch: Any, arrays: Any) -> Any:
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
