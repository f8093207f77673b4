"""Pipelined Keras models: whole pipeline runs in one TensorFlow graph.

Training runs forward and backward and ends with a weight update; evaluation and
prediction only run forward, and are cut where the schedule repeats itself. Between
the actions of a long training run the graph looks outside, so that progress is seen
and stop acts in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.build.pipeline.keras_stages import KerasStages, StageFunctions
from ipu_runtime.engine.build.pipeline.schedule_executor import (
    PipelineRun,
    Tensors,
    run_schedule,
)
from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import (
    Look,
    StoppedError,
    graph_executor,
)
from ipu_runtime.engine.build.programs.gradient_capture import (
    Captured,
    reduced_over,
)
from ipu_runtime.engine.build.programs.metric_results import (
    CollectedResults,
    empty_results,
)
from ipu_runtime.engine.build.programs.micro_batch import LoopState
from ipu_runtime.engine.feeds.feed import read_batch
from ipu_runtime.engine.numerics.half_models import emulated
from ipu_runtime.engine.numerics.half_operations import half_sum
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.keras_state import stored
from ipu_runtime.frameworks.tensorflow_graphs import traced
from ipu_runtime.plan.schedule.schedule import Schedule


class PipelineTraining:
    """Pipeline runs with a weight update after each."""

    choice = graph_executor("stages of a pipeline")

    def __init__(
        self,
        functions: StageFunctions,
        schedule: Schedule,
        accumulation: Accumulation,
        looks_outside: bool,
        collected: CollectedResults | None = None,
        accumulates_captured: bool = False,
    ) -> None:
        self.unit = accumulation.total
        self._collected = collected
        self.peak_stash: tuple[int, ...] = ()
        """Most micro-batches that each stage kept for its backward pass."""
        self.state = functions.micro_batch.state
        self._look: Look = lambda batches: None
        self._functions = functions
        self._schedule = schedule
        self._accumulation = accumulation
        self._weights = list(functions.micro_batch.model.trainable_weights)
        self._looks_outside = looks_outside
        self._accumulates_captured = accumulates_captured
        self._stopped = False
        self._actions = 0
        self._half = functions.micro_batch.half
        self._run = traced(emulated(self._updates, self._half))
        self._apply = traced(self._apply_gradients)

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Train on the batches of whole updates; return metrics by batch if wanted."""
        self._stopped, self._actions, self._look = False, 0, look
        updates = tf.constant(count // self.unit)
        try:
            values = self._run(source, tf.constant(first), updates)
        except tf.errors.OpError:
            if self._stopped:
                raise StoppedError from None
            raise
        return self._collected.rows(values) if self._collected else None

    def _around_action(self) -> AbstractContextManager[Any]:
        if not self._looks_outside:
            return nullcontext()
        looked = tf.numpy_function(self._look_outside, [], tf.bool)
        context: AbstractContextManager[Any] = tf.control_dependencies([looked])
        return context

    def _look_outside(self) -> Any:
        actions = self._schedule.tasks * self._accumulation.replicas
        try:
            self._look(self._actions / actions * self.unit)
        except StoppedError:
            # TensorFlow reports it as an error of its own kind.
            self._stopped = True
            raise
        self._actions += 1
        return np.bool_(True)

    def _updates(self, source: Any, first: Any, updates: Any) -> Any:
        micro_batch = self._functions.micro_batch
        state = micro_batch.load()
        values = empty_results(self._collected, updates * self.unit)

        def body(update: Any, statistics: Any, metrics: Any, values: Any) -> Any:
            state, rows = self._update(
                source, first + update * self.unit, LoopState(statistics, metrics)
            )
            for index, row in sorted(rows.items()):
                values = values.write(update * self.unit + index, row)
            return update + 1, state.statistics, state.metrics, values

        _, statistics, metrics, values = tf.while_loop(
            lambda update, *_: update < updates,
            body,
            (tf.constant(0), state.statistics, state.metrics, values),
            parallel_iterations=1,
        )
        micro_batch.save(LoopState(statistics, metrics))
        return values.stack()

    def _update(
        self, source: Any, first: Any, state: LoopState
    ) -> tuple[LoopState, dict[int, Any]]:
        rows: dict[int, Any] = {}
        replicas = self._accumulation.replicas
        batches = Batches(source, first)
        optimizer = self._functions.micro_batch.model.optimizer
        updates = tf.cast(stored(optimizer.iterations), tf.int64)
        totals = self._accumulation.zeros(self._weights)
        finished: Sequence[Any] = ()
        for replica in range(replicas):
            with tf.control_dependencies(finished):
                run, stages = self._replica(replica, batches, updates, state, rows)
            state = stages.state
            totals = self._merged(totals, run.gradients)
            finished = [item for item in run.finished if tf.is_tensor(item)]
            self.peak_stash = run.peak_stash
        self._apply(totals, self._captured(stages))
        return state, rows

    def _captured(self, last_replica: KerasStages) -> Captured:
        """Return the captured gradients of one weight update."""
        by_micro_batch = [item for _, item in sorted(last_replica.captured.items())]
        combine = self._combined if self._accumulates_captured else None
        return reduced_over(by_micro_batch, combine)

    def _replica(
        self,
        replica: int,
        batches: Batches,
        updates: Any,
        state: LoopState,
        rows: dict[int, Any],
    ) -> tuple[PipelineRun, KerasStages]:
        replicas = self._accumulation.replicas
        stages = KerasStages(
            self._functions,
            state,
            replica,
            lambda micro_batch: self._accumulation.counter(
                updates, micro_batch * replicas + replica
            ),
            self._around_action,
            result_writer(self._functions, self._collected, replica, replicas, rows),
        )
        run = run_schedule(
            self._schedule,
            stages,
            lambda micro_batch: stages.enter(
                batches.read(micro_batch * replicas + replica)
            ),
            self._combined,
        )
        return run, stages

    def _combined(
        self, so_far: Tensors | None, gradients: Tensors, micro_batch: int
    ) -> Tensors:
        if self._half is not None:
            optimizer = self._functions.micro_batch.model.optimizer
            updates = stored(optimizer.iterations)
            self._half.draws.enter_accumulation(
                tf.cast(updates, tf.int64) * self.unit + micro_batch
            )
        if so_far is None:
            return self._accumulation.first(gradients)
        return self._accumulation.add(
            so_far, gradients, micro_batch * self._accumulation.replicas
        )

    def _merged(self, totals: Tensors, by_stage: Sequence[Tensors]) -> Tensors:
        """Add the gradients of all stages to those of the replicas before."""
        merged = list(totals)
        place = {id(weight): index for index, weight in enumerate(self._weights)}
        for weights, gradients in zip(self._functions.weights, by_stage, strict=True):
            for weight, gradient in zip(weights, gradients, strict=True):
                if gradient is not None:
                    index = place[id(weight)]
                    share = tf.cast(gradient, merged[index].dtype)
                    merged[index] = half_sum(merged[index], share)
        return merged

    def _apply_gradients(self, gradients: Tensors, captured: Captured) -> None:
        self._functions.micro_batch.apply(gradients, self._weights, captured)


class PipelineInference:
    """Forward pipelines; a run is cut where the schedule repeats itself."""

    choice = graph_executor("stages of a pipeline")
    peak_stash = ()

    def __init__(
        self,
        functions: StageFunctions,
        schedule: Schedule,
        replicas: int,
        collected: CollectedResults | None = None,
    ) -> None:
        self.unit = schedule.micro_batches * replicas
        self._collected = collected
        self.state = functions.micro_batch.state
        self._functions = functions
        self._schedule = schedule
        self._replicas = replicas
        self._run = traced(emulated(self._runs, functions.micro_batch.half))

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Run on some batches; return outputs, batches stacked on a new first axis.

        An evaluation returns metric values by batch if they are wanted.
        """
        runs = tf.constant(count // self.unit)
        outputs, values = self._run(source, tf.constant(first), runs)
        return self._collected.rows(values) if self._collected else outputs

    def _runs(self, source: Any, first: Any, runs: Any) -> Any:
        micro_batch = self._functions.micro_batch
        state = micro_batch.load()
        structure, arrays = self._output_arrays(runs)
        values = empty_results(self._collected, runs * self.unit)

        def body(
            index: Any, statistics: Any, metrics: Any, arrays: Any, values: Any
        ) -> Any:
            start = first + index * self.unit
            rows: dict[int, Any] = {}
            state, outputs = self._one_run(
                source, start, LoopState(statistics, metrics), rows
            )
            for batch, row in sorted(rows.items()):
                values = values.write(index * self.unit + batch, row)
            arrays = tuple(
                array.write(index, tf.stack(batches))
                for array, batches in zip(arrays, outputs, strict=True)
            )
            return index + 1, state.statistics, state.metrics, arrays, values

        _, statistics, metrics, arrays, values = tf.while_loop(
            lambda index, *_: index < runs,
            body,
            (tf.constant(0), state.statistics, state.metrics, arrays, values),
            parallel_iterations=1,
        )
        micro_batch.save(LoopState(statistics, metrics))
        if structure is None:
            return None, values.stack()
        outputs = [item.concat() for item in arrays]
        return tree.pack_sequence_as(structure, outputs), values.stack()

    def _output_arrays(self, runs: Any) -> tuple[Any, tuple[Any, ...]]:
        if self._functions.phase != "predict":
            return None, ()
        network = self._functions.network
        structure = tree.map_structure(lambda symbol: symbol, network.output)
        if isinstance(structure, (list, tuple)) and len(structure) == 1:
            structure = structure[0]
        return structure, tuple(
            tf.TensorArray(symbol.dtype, size=runs, infer_shape=False)
            for symbol in tree.flatten(structure)
        )

    def _one_run(
        self, source: Any, first: Any, state: LoopState, rows: dict[int, Any]
    ) -> tuple[LoopState, list[list[Any]]]:
        """Run all replicas once; return outputs by output, then in order of batches."""
        batches = Batches(source, first)
        by_batch: list[Tensors] = [[] for _ in range(self.unit)]
        for replica in range(self._replicas):
            run, state = self._replica(replica, batches, first, state, rows)
            for micro_batch, outputs in enumerate(run.outputs):
                by_batch[micro_batch * self._replicas + replica] = outputs
        if self._functions.phase != "predict":
            return state, []
        return state, [list(column) for column in zip(*by_batch, strict=True)]

    def _replica(
        self,
        replica: int,
        batches: Batches,
        first: Any,
        state: LoopState,
        rows: dict[int, Any],
    ) -> tuple[PipelineRun, LoopState]:
        stages = KerasStages(
            self._functions,
            state,
            replica,
            lambda micro_batch: (
                tf.cast(first, tf.int64) + (micro_batch * self._replicas + replica)
            ),
        )
        run = run_schedule(
            self._schedule,
            stages,
            lambda micro_batch: stages.enter(
                batches.read(micro_batch * self._replicas + replica)
            ),
        )
        return run, stages.state


def result_writer(
    functions: StageFunctions,
    collected: CollectedResults | None,
    replica: int,
    replicas: int,
    rows: dict[int, Any],
) -> Callable[[int, LoopState], None]:
    """Return what puts the metrics after a micro-batch into `rows`, if wanted."""
    if collected is None:
        return lambda micro_batch, state: None

    def write(micro_batch: int, state: LoopState) -> None:
        values = collected.values(functions.micro_batch, state, replica)
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
