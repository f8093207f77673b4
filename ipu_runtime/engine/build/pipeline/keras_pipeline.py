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
    Combine,
    PipelineRun,
    Tensors,
    run_schedule,
)
from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import Look, StoppedError
from ipu_runtime.engine.build.programs.gradient_capture import Captured, reduced_over
from ipu_runtime.engine.build.programs.loop_program import BatchLoop, Rows
from ipu_runtime.engine.build.programs.metric_results import CollectedResults
from ipu_runtime.engine.build.programs.micro_batch import LoopState
from ipu_runtime.engine.feeds.feed import read_batch
from ipu_runtime.engine.numerics.half_operations import half_sum
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.keras_state import stored
from ipu_runtime.frameworks.tensorflow_graphs import traced
from ipu_runtime.frameworks.types import Tensor
from ipu_runtime.plan.schedule.schedule import Schedule


class PipelineLoop(BatchLoop):
    """A loop of pipeline runs, each of all replicas one after the other."""

    def __init__(
        self,
        functions: StageFunctions,
        schedule: Schedule,
        replicas: int,
        collected: CollectedResults | None,
    ) -> None:
        unit = schedule.micro_batches * replicas
        refused = "stages of a pipeline"
        super().__init__(functions.micro_batch, refused, collected, unit)
        self._functions = functions
        self._schedule = schedule
        self._replicas = replicas

    def run_replica(
        self,
        replica: int,
        batches: Batches,
        state: LoopState,
        rows: Rows,
        counter: Callable[[int], Tensor],
        combine: Combine | None = None,
    ) -> tuple[PipelineRun, KerasStages]:
        """Run the schedule once, for one replica.

        Args:
            replica: Its number.
            batches: Those of all replicas, of which it takes its own.
            state: That of all replicas.
            rows: Where metric values after its batches go, if they are wanted.
            counter: Returns the number of one of the unit's batches, over all units.
            combine: Accumulates gradients.
        """

        def place(micro_batch: int) -> int:
            return micro_batch * self._replicas + replica

        def after_last(micro_batch: int, state: LoopState) -> None:
            rows.update(self._rows(state, replica, place(micro_batch)))

        stages = KerasStages(
            self._functions,
            state,
            replica,
            lambda micro_batch: counter(place(micro_batch)),
            self.around_action,
            after_last,
        )
        run = run_schedule(
            self._schedule,
            stages,
            lambda micro_batch: stages.enter(batches.read(place(micro_batch))),
            combine,
        )
        return run, stages

    def around_action(self) -> AbstractContextManager[Any]:
        """Return in which context the stages act."""
        return nullcontext()


class PipelineTraining(PipelineLoop):
    """Pipeline runs with a weight update after each."""

    def __init__(
        self,
        functions: StageFunctions,
        schedule: Schedule,
        accumulation: Accumulation,
        looks_outside: bool,
        collected: CollectedResults | None,
        accumulates_captured: bool,
    ) -> None:
        super().__init__(functions, schedule, accumulation.replicas, collected)
        self._look: Look = lambda batches: None
        self._accumulation = accumulation
        self._weights = list(functions.micro_batch.model.trainable_weights)
        self._looks_outside = looks_outside
        self._accumulates_captured = accumulates_captured
        self._stopped = False
        self._actions = 0
        self._half = functions.micro_batch.half
        self._apply = traced(self._apply_gradients)

    def run(self, source: Any, first: int, count: int, look: Look) -> Any:
        """Train on the batches of whole updates; return metrics by batch if wanted."""
        self._stopped, self._actions, self._look = False, 0, look
        try:
            return super().run(source, first, count, look)
        except tf.errors.OpError:
            if self._stopped:
                raise StoppedError from None
            raise

    def around_action(self) -> AbstractContextManager[Any]:
        """Let an action wait until somebody outside was asked, in a long run."""
        if not self._looks_outside:
            return nullcontext()
        looked = tf.numpy_function(self._look_outside, [], tf.bool)
        context: AbstractContextManager[Any] = tf.control_dependencies([looked])
        return context

    def _look_outside(self) -> Any:
        actions = self._schedule.tasks * self._replicas
        try:
            self._look(self._actions / actions * self.unit)
        except StoppedError:
            # TensorFlow reports it as an error of its own kind.
            self._stopped = True
            raise
        self._actions += 1
        return np.bool_(True)

    def one_unit(
        self, source: Any, batch: Tensor, state: LoopState
    ) -> tuple[LoopState, Rows, Sequence[Tensor]]:
        """Run all replicas once, and update the weights."""
        rows: Rows = {}
        batches = Batches(source, batch)
        optimizer = self._functions.micro_batch.model.optimizer
        updates = tf.cast(stored(optimizer.iterations), tf.int64)
        totals = self._accumulation.zeros(self._weights)
        finished: Sequence[Any] = ()
        for replica in range(self._replicas):
            with tf.control_dependencies(finished):
                run, stages = self.run_replica(
                    replica,
                    batches,
                    state,
                    rows,
                    lambda place: self._accumulation.counter(updates, place),
                    self._combined,
                )
            state = stages.state
            totals = self._merged(totals, run.gradients)
            finished = [item for item in run.finished if tf.is_tensor(item)]
            self.peak_stash = run.peak_stash
        self._apply(totals, self._captured(stages))
        return state, rows, ()

    def _captured(self, last_replica: KerasStages) -> Captured:
        """Return the captured gradients of one weight update."""
        by_micro_batch = [item for _, item in sorted(last_replica.captured.items())]
        combine = self._combined if self._accumulates_captured else None
        return reduced_over(by_micro_batch, combine)

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
        return self._accumulation.add(so_far, gradients, micro_batch * self._replicas)

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


class PipelineInference(PipelineLoop):
    """Forward pipelines; a run is cut where the schedule repeats itself."""

    def output_arrays(self, units: Tensor) -> tuple[Any, tuple[tf.TensorArray, ...]]:
        """Return what the model returns, and an array for each part of it."""
        if self._functions.phase != "predict":
            return None, ()
        network = self._functions.network
        structure = tree.map_structure(lambda symbol: symbol, network.output)
        if isinstance(structure, (list, tuple)) and len(structure) == 1:
            structure = structure[0]
        return structure, tuple(
            tf.TensorArray(symbol.dtype, size=units, infer_shape=False)
            for symbol in tree.flatten(structure)
        )

    def one_unit(
        self, source: Any, batch: Tensor, state: LoopState
    ) -> tuple[LoopState, Rows, Sequence[Tensor]]:
        """Run all replicas once; return outputs stacked in order of batches."""
        rows: Rows = {}
        batches = Batches(source, batch)
        by_batch: list[Tensors] = [[] for _ in range(self.unit)]
        for replica in range(self._replicas):
            run, stages = self.run_replica(
                replica,
                batches,
                state,
                rows,
                lambda place: tf.cast(batch, tf.int64) + place,
            )
            state = stages.state
            for micro_batch, outputs in enumerate(run.outputs):
                by_batch[micro_batch * self._replicas + replica] = outputs
        if self._functions.phase != "predict":
            return state, rows, ()
        columns = zip(*by_batch, strict=True)
        return state, rows, [tf.stack(column) for column in columns]


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
