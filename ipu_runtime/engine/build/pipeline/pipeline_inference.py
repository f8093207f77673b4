"""Pipelined models that only run forward: evaluation and prediction."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.keras_stages import KerasStages
from ipu_runtime.engine.build.pipeline.pipeline_batches import Batches
from ipu_runtime.engine.build.pipeline.schedule_executor import (
    PipelineRun,
    Tensors,
    run_schedule,
)
from ipu_runtime.engine.build.pipeline.stage_functions import StageFunctions
from ipu_runtime.engine.build.programs.executable import (
    CollectedResults,
    Look,
    empty_results,
)
from ipu_runtime.engine.build.programs.executor_choice import graph_executor
from ipu_runtime.engine.build.programs.micro_batch import Carry
from ipu_runtime.engine.build.programs.tracing import traced
from ipu_runtime.engine.numerics.half_models import emulated
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.plan.schedule.schedule import Schedule


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
        carry = micro_batch.load()
        structure, arrays = self._output_arrays(runs)
        values = empty_results(self._collected, runs * self.unit)

        def body(
            index: Any, statistics: Any, metrics: Any, arrays: Any, values: Any
        ) -> Any:
            start = first + index * self.unit
            rows: dict[int, Any] = {}
            carry, outputs = self._one_run(
                source, start, Carry(statistics, metrics), rows
            )
            for batch, row in sorted(rows.items()):
                values = values.write(index * self.unit + batch, row)
            arrays = tuple(
                array.write(index, tf.stack(batches))
                for array, batches in zip(arrays, outputs, strict=True)
            )
            return index + 1, carry.statistics, carry.metrics, arrays, values

        _, statistics, metrics, arrays, values = tf.while_loop(
            lambda index, *_: index < runs,
            body,
            (tf.constant(0), carry.statistics, carry.metrics, arrays, values),
            parallel_iterations=1,
        )
        micro_batch.save(Carry(statistics, metrics))
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
        self, source: Any, first: Any, carry: Carry, rows: dict[int, Any]
    ) -> tuple[Carry, list[list[Any]]]:
        """Run all replicas once; return outputs by output, then in order of batches."""
        batches = Batches(source, first)
        by_batch: list[Tensors] = [[] for _ in range(self.unit)]
        for replica in range(self._replicas):
            run, carry = self._replica(replica, batches, first, carry, rows)
            for micro_batch, outputs in enumerate(run.outputs):
                by_batch[micro_batch * self._replicas + replica] = outputs
        if self._functions.phase != "predict":
            return carry, []
        return carry, [list(column) for column in zip(*by_batch, strict=True)]

    def _replica(
        self,
        replica: int,
        batches: Batches,
        first: Any,
        carry: Carry,
        rows: dict[int, Any],
    ) -> tuple[PipelineRun, Carry]:
        stages = KerasStages(
            self._functions,
            carry,
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
        return run, stages.carry
