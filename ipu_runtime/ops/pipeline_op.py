"""Pipelines of a script's own stages: `ipu.ops.pipelining_ops.pipeline`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_runtime.engine.accumulation import Accumulation
from ipu_runtime.engine.device_loop import build_loop
from ipu_runtime.engine.graph_pipeline import (
    BuiltRun,
    GradientMap,
    GraphPipeline,
    Update,
    build_run,
)
from ipu_runtime.engine.placement import Placement, current_placement
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.ops import pipeline_checks as checks
from ipu_runtime.ops.optimizer_function_output import OptimizerFunctionOutput
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, PipelineStageOptions
from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer
from ipu_runtime.optimizers.map_gradient_optimizer import MapGradientOptimizer
from ipu_runtime.plan.schedules import build_schedule

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

    Options about where things live on the device have no effect on results;
    `pipeline_depth` is the older name of `gradient_accumulation_count`.
    """
    del gradient_accumulation_for_captured_grads, offload_activations
    del offload_gradient_accumulation_buffers, replicated_weight_sharding
    del offload_weights, name
    if gradient_accumulation_count is None:
        gradient_accumulation_count = pipeline_depth
    prepared = prepare(
        computational_stages,
        gradient_accumulation_count,
        dtype=gradient_accumulation_dtype,
        serialization=batch_serialization_iterations,
        inputs=inputs,
        infeed=infeed_queue,
        outfeed=outfeed_queue,
        optimizer_function=optimizer_function,
        device_mapping=device_mapping,
        schedule=pipeline_schedule,
        recomputation_mode=recomputation_mode,
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
class ResultOptions:
    """What of a pipeline's results goes to the host."""

    outfeed: Any = None
    loss_only: bool = False
    accumulate: bool = False
    accumulate_dtype: Any = None
    mask: Sequence[bool] | None = None


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
        operations = _enqueue(run, self.results, self.training)
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
    recomputation = checks.checked_recomputation(recomputation_mode, schedule)
    functions = checks.checked_stages(stages)
    checks.check_feeds(infeed, outfeed)
    mapping = checks.checked_mapping(
        device_mapping, len(functions), schedule, training, serialization
    )
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
    checks.check_count_rule(count, schedule, mapping, training)
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
        infeed._dequeue if infeed is not None else None,
        _update_of(optimizer_function) if optimizer_function else None,
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


def _update_of(
    optimizer_function: Callable[..., OptimizerFunctionOutput],
) -> Callable[[Any], Update]:
    def update(outputs: Any) -> Update:
        arguments = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        output = optimizer_function(*arguments)
        if not isinstance(output, OptimizerFunctionOutput):
            raise TypeError(
                "`optimizer_function` must return an OptimizerFunctionOutput, but "
                f"returned {output!r}."
            )
        if isinstance(output.opt, keras.optimizers.Optimizer):
            return _keras_update(output)
        variables = output.compute_gradients_kwargs.get("var_list")
        return Update(
            output.loss,
            variables or tf.compat.v1.trainable_variables(),
            lambda pairs: output.opt.apply_gradients(
                pairs, *output.apply_gradients_args, **output.apply_gradients_kwargs
            ),
            _gradient_maps(output.opt),
        )

    return update


def _keras_update(output: OptimizerFunctionOutput) -> Update:
    variables = output.variables
    if variables is None and output.tape is not None:
        variables = output.tape.watched_variables()
    if not variables:
        raise RuntimeError(
            "No variables to optimize: a Keras optimizer needs `variables` or a `tape`."
        )
    by_handle = {variable.handle.name: variable for variable in variables}

    def apply(pairs: list[tuple[Any, Any]]) -> Any:
        before = len(tf.compat.v1.get_default_graph().get_operations())
        output.opt.apply_gradients(
            [(gradient, by_handle[item.handle.name]) for gradient, item in pairs]
        )
        made = tf.compat.v1.get_default_graph().get_operations()[before:]
        return tf.group(*(item for item in made if item.type.startswith("Assign")))

    return Update(output.loss, list(variables), apply)


def _gradient_maps(optimizer: Any) -> list[GradientMap]:
    """Return the functions that wrapping optimizers apply to each gradient."""
    maps: list[GradientMap] = []
    while isinstance(optimizer, IpuOptimizer):
        if isinstance(optimizer, MapGradientOptimizer):
            maps.insert(0, optimizer.gradient_mapping_function)
        optimizer = optimizer.wrapped
    return maps


def _enqueue(run: BuiltRun, options: ResultOptions, training: bool) -> list[Any]:
    """Send results to the host, micro-batch by micro-batch or summed up."""
    results = [
        _selected(outputs, loss, options, training)
        for outputs, loss in zip(
            run.outputs, run.losses or [None] * len(run.outputs), strict=True
        )
    ]
    if not tf.nest.flatten(results[0]):
        return []
    if options.outfeed is None:
        raise ValueError(
            "The last computational stage has tensor outputs, but there is no "
            "`outfeed_queue` for them."
        )
    if options.accumulate:
        total = tf.nest.map_structure(
            lambda *parts: tf.add_n([_cast(part, options) for part in parts]), *results
        )
        return [options.outfeed._enqueue(total)]
    operations: list[Any] = []
    for result in results:
        with tf.control_dependencies(operations[-1:]):
            operations.append(options.outfeed._enqueue(result))
    return operations


def _selected(outputs: Any, loss: Any, options: ResultOptions, training: bool) -> Any:
    if options.loss_only:
        return loss
    if not training:
        keep = isinstance(outputs, dict) or tf.is_tensor(outputs)
        return outputs if keep else list(outputs)
    flat = tf.nest.flatten(outputs)
    if options.mask is None:
        return flat
    if len(options.mask) != len(flat):
        raise ValueError(
            f"`outfeed_mask` has {len(options.mask)} entries for {len(flat)} outputs."
        )
    return [item for item, left in zip(flat, options.mask, strict=True) if not left]


def _cast(tensor: Any, options: ResultOptions) -> Any:
    wanted = options.accumulate_dtype
    if callable(wanted) and not isinstance(wanted, tf.DType):
        wanted = wanted(tensor)
    return tensor if wanted is None else tf.cast(tensor, wanted)
