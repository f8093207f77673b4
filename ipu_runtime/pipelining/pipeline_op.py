"""Pipelines of a script's own stages: `ipu.ops.pipelining_ops.pipeline`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_pipeline import (
    BuiltRun,
    GraphPipeline,
    build_run,
)
from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.replicas.device_loop import build_loop
from ipu_runtime.engine.describe.call_settings import intercepted_pipeline
from ipu_runtime.engine.describe.placement import Placement, current_placement
from ipu_runtime.engine.watch.interception import is_intercepted
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, PipelineStageOptions
from ipu_runtime.pipelining import pipeline_checks as checks
from ipu_runtime.pipelining.pipeline_results import ResultOptions, enqueue_results
from ipu_runtime.pipelining.pipeline_update import OptimizerFunctionOutput, update_of
from ipu_runtime.plan.schedule.building import build_schedule

__all__ = ["OptimizerFunctionOutput", "pipeline", "recomputation_checkpoint"]

logger = logging.getLogger("tensorflow")
Reduction = GradientAccumulationReductionMethod


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Return the tensors; marks values that are stored rather than recomputed."""
    del name
    return tf.nest.map_structure(tf.identity, tensors)


def pipeline(
    computational_stages: Sequence[Any],
    gradient_accumulation_count: Any = None,
    gradient_accumulation_dtype: Any = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Sequence[Any] | None = None,
    infeed_queue: Any = None,
    outfeed_queue: Any = None,
    optimizer_function: Callable[..., OptimizerFunctionOutput] | None = None,
    device_mapping: Sequence[Any] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    recomputation_mode: Any = None,
    forward_propagation_stages_poplar_options: Any = None,
    backward_propagation_stages_poplar_options: Any = None,
    weight_update_poplar_options: Any = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: Any = None,
    outfeed_mask: Sequence[bool] | None = None,
    reduction_method: Reduction | str = Reduction.SUM,
    name: str | None = None,
    *,
    pipeline_depth: Any = None,
) -> Any:
    """Return an operation that runs a pipeline `repeat_count` times.

    Options about where things live on the device have no effect on results, only on
    the plan of a captured script; `pipeline_depth` is the older name of
    `gradient_accumulation_count`.
    """
    del name
    if gradient_accumulation_count is None:
        gradient_accumulation_count = pipeline_depth
    asked = {
        "gradient_accumulation_count": gradient_accumulation_count,
        "pipeline_schedule": pipeline_schedule,
        "recomputation_mode": recomputation_mode,
        "device_mapping": device_mapping,
        "offload_activations": offload_activations,
        "offload_weight_update_variables": offload_weight_update_variables,
        "replicated_optimizer_state_sharding": replicated_optimizer_state_sharding,
        "offload_gradient_accumulation_buffers": offload_gradient_accumulation_buffers,
        "replicated_weight_sharding": replicated_weight_sharding,
        "offload_weights": offload_weights,
    }
    if is_intercepted():
        training = optimizer_function is not None
        asked |= intercepted_pipeline("pipelining_ops.pipeline", training, asked)
    prepared = prepare(
        computational_stages,
        asked["gradient_accumulation_count"],
        dtype=gradient_accumulation_dtype,
        serialization=batch_serialization_iterations,
        inputs=inputs,
        infeed=infeed_queue,
        outfeed=outfeed_queue,
        optimizer_function=optimizer_function,
        device_mapping=asked["device_mapping"],
        schedule=asked["pipeline_schedule"],
        recomputation_mode=asked["recomputation_mode"],
        forward_options=forward_propagation_stages_poplar_options,
        backward_options=backward_propagation_stages_poplar_options,
        update_options=weight_update_poplar_options,
        continuous=continuous_weight_updates,
        results=ResultOptions(
            outfeed_queue,
            outfeed_loss,
            accumulate_outfeed,
            accumulate_outfeed_dtype,
            outfeed_mask,
        ),
        reduction_method=reduction_method,
        accumulates_captured=gradient_accumulation_for_captured_grads,
    )
    if optimizer_function is None:
        for option, value in (
            (
                "replicated_optimizer_state_sharding",
                replicated_optimizer_state_sharding,
            ),
            ("offload_weight_update_variables", offload_weight_update_variables),
        ):
            if value:
                logger.warning("%s has no effect without an optimizer_function", option)
    return prepared.repeat(repeat_count)


@dataclass(frozen=True)
class PreparedPipeline:
    """A checked pipeline, ready to be built into a loop."""

    pipeline: GraphPipeline
    results: ResultOptions
    mapping: tuple[int, ...]
    count: int

    @property
    def training(self) -> bool:
        """Whether weights are updated."""
        return self.pipeline.update is not None

    def run_once(self) -> tuple[BuiltRun, list[Any]]:
        """Build one run into the current graph; return it and what must be run."""
        run = build_run(self.pipeline)
        operations = enqueue_results(run, self.results, self.training)
        if run.update is not None:
            operations.append(
                run.update if isinstance(run.update, tf.Operation) else run.update.op
            )
        return run, [*operations, *(tensor.op for tensor in run.finished)]

    def repeat(self, times: Any) -> Any:
        """Build a loop of runs into the current graph."""
        placement = current_placement() or Placement()
        placement.shards.update(self.mapping)

        def body(index: Any) -> tuple[list[Any], list[Any]]:
            _, operations = self.run_once()
            return [index + 1], operations

        return build_loop(
            lambda index: index < times,
            body,
            [tf.constant(0)],
            placement.replica_count,
            broadcast_first=True,
        ).operation


def prepare(
    stages: Sequence[Any],
    count: Any,
    *,
    results: ResultOptions,
    dtype: Any = None,
    serialization: int = 1,
    inputs: Sequence[Any] | None = None,
    infeed: Any = None,
    outfeed: Any = None,
    optimizer_function: Callable[..., OptimizerFunctionOutput] | None = None,
    device_mapping: Sequence[Any] | None = None,
    schedule: PipelineSchedule | None = None,
    recomputation_mode: Any = None,
    forward_options: Any = None,
    backward_options: Any = None,
    update_options: Any = None,
    continuous: bool = False,
    reduction_method: Reduction | str = Reduction.SUM,
    accumulates_captured: bool = True,
) -> PreparedPipeline:
    """Check a pipeline by the rules of the device."""
    training = optimizer_function is not None
    count = checks.checked_count(count)
    reduction = Reduction.parse(reduction_method) if training else Reduction.SUM
    if reduction is not Reduction.SUM and serialization != 1:
        raise ValueError(
            "`batch_serialization_iterations` needs the reduction SUM, but it is "
            f"{reduction.name}."
        )
    if continuous:
        raise NotImplementedError("`continuous_weight_updates` is not supported.")
    schedule = checks.checked_schedule(schedule, serialization)
    functions = checks.checked_stages(stages)
    checks.check_feeds(infeed, outfeed)
    mapping = checks.checked_mapping(
        device_mapping, len(functions), schedule, training, serialization
    )
    recomputation = checks.checked_recomputation(recomputation_mode, schedule, training)
    checks.check_stage_options(
        "forward_propagation_stages_poplar_options", forward_options, len(functions)
    )
    if training:
        checks.check_stage_options(
            "backward_propagation_stages_poplar_options",
            backward_options,
            len(functions),
        )
        if update_options is not None and not isinstance(
            update_options, PipelineStageOptions
        ):
            raise TypeError(
                "`weight_update_poplar_options` must be PipelineStageOptions, but is "
                f"{update_options!r}."
            )
    checks.check_outfeed_options(
        results.outfeed, training, results.loss_only, results.mask, results.accumulate
    )
    checks.check_micro_batches(count, schedule, mapping, training)
    built = build_schedule(
        schedule.kind,
        len(functions),
        count * serialization,
        training=training,
        recomputation=recomputation,
        device_mapping=mapping,
    )
    graph_pipeline = GraphPipeline(
        [_one_stage(function) for function in functions],
        built,
        Accumulation(reduction, count * serialization, 1, dtype),
        tuple(inputs or ()),
        infeed.take if infeed is not None else None,
        update_of(optimizer_function) if optimizer_function else None,
        accumulates_captured,
    )
    return PreparedPipeline(graph_pipeline, results, mapping, count)


def _one_stage(stage: Any) -> Callable[..., Any]:
    """Return a stage; functions that run beside each other become one."""
    if not isinstance(stage, (list, tuple)):
        return stage

    def together(*args: Any, **kwargs: Any) -> list[Any]:
        outputs: list[Any] = []
        for function in stage:
            result = function(*args, **kwargs)
            outputs.extend(result if isinstance(result, (list, tuple)) else [result])
        return outputs

    return together
