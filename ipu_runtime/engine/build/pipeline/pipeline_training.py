"""Pipelined models: whole pipeline runs in one TensorFlow graph.

Between the actions of a long run the graph looks outside, so that progress is seen
and stop acts in the middle of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.build.pipeline.keras_stages import KerasStages
from ipu_runtime.engine.build.pipeline.pipeline_batches import Batches, result_writer
from ipu_runtime.engine.build.pipeline.schedule_executor import (
    PipelineRun,
    Tensors,
    run_schedule,
)
from ipu_runtime.engine.build.pipeline.stage_functions import StageFunctions
from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import (
    CollectedResults,
    Look,
    StoppedError,
    empty_results,
)
from ipu_runtime.engine.build.programs.executor_choice import graph_executor
from ipu_runtime.engine.build.programs.gradient_capture import (
    Captured,
    reduced_over,
)
from ipu_runtime.engine.build.programs.micro_batch import Carry
from ipu_runtime.engine.build.programs.tracing import traced
from ipu_runtime.engine.numerics.half_models import emulated
from ipu_runtime.engine.numerics.half_operations import half_sum
from ipu_runtime.frameworks.keras_state import stored
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
        carry = micro_batch.load()
        values = empty_results(self._collected, updates * self.unit)

        def body(update: Any, statistics: Any, metrics: Any, values: Any) -> Any:
            carry, rows = self._update(
                source, first + update * self.unit, Carry(statistics, metrics)
            )
            for index, row in sorted(rows.items()):
                values = values.write(update * self.unit + index, row)
            return update + 1, carry.statistics, carry.metrics, values

        _, statistics, metrics, values = tf.while_loop(
            lambda update, *_: update < updates,
            body,
            (tf.constant(0), carry.statistics, carry.metrics, values),
            parallel_iterations=1,
        )
        micro_batch.save(Carry(statistics, metrics))
        return values.stack()

    def _update(
        self, source: Any, first: Any, carry: Carry
    ) -> tuple[Carry, dict[int, Any]]:
        rows: dict[int, Any] = {}
        replicas = self._accumulation.replicas
        batches = Batches(source, first)
        optimizer = self._functions.micro_batch.model.optimizer
        updates = tf.cast(stored(optimizer.iterations), tf.int64)
        totals = self._accumulation.zeros(self._weights)
        finished: Sequence[Any] = ()
        for replica in range(replicas):
            with tf.control_dependencies(finished):
                run, stages = self._replica(replica, batches, updates, carry, rows)
            carry = stages.carry
            totals = self._merged(totals, run.gradients)
            finished = [item for item in run.finished if tf.is_tensor(item)]
            self.peak_stash = run.peak_stash
        self._apply(totals, self._captured(stages))
        return carry, rows

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
        carry: Carry,
        rows: dict[int, Any],
    ) -> tuple[PipelineRun, KerasStages]:
        replicas = self._accumulation.replicas
        stages = KerasStages(
            self._functions,
            carry,
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
