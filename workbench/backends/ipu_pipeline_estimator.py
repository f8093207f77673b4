"""`IPUPipelineEstimator`: the layers of every stage as a function of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.frameworks.keras_calls import takes_training
from ipu_runtime.ipu_pipeline_estimator import (
    IPUPipelineEstimator,
    IPUPipelineEstimatorSpec,
)
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput
from ipu_runtime.plan.placements import PLACEMENTS
from workbench.backends.estimator_model import (
    classes_of,
    loss_of,
    optimizer_of,
    predictions_of,
)
from workbench.backends.estimator_training import train_with_estimator
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.model_builder import call_layer, make_layer
from workbench.runs.run_context import RunContext


def train(spec: ExperimentSpec, context: RunContext) -> None:
    """Train and evaluate with an `IPUPipelineEstimator`."""

    def model_fn(mode: str) -> IPUPipelineEstimatorSpec:
        training = mode == ModeKeys.TRAIN
        stages = max(spec.pipeline.stages) + 1
        functions = [_stage_function(spec, stage, training) for stage in range(stages)]
        return IPUPipelineEstimatorSpec(
            mode,
            functions,
            spec.execution.gradient_accumulation if training else stages,
            eval_metrics_fn=_evaluation_metrics,
            optimizer_function=_optimizer_function(spec) if training else None,
            device_mapping=list(spec.pipeline.device_mapping) or None,
            reduction_method=spec.execution.accumulation_reduction,
            pipeline_schedule=PipelineSchedule[spec.pipeline.schedule],
            recomputation_mode=RecomputationMode[spec.pipeline.recomputation],
            **{name: getattr(spec.pipeline, name) for name in PLACEMENTS},
        )

    train_with_estimator(
        spec, context, lambda config: IPUPipelineEstimator(model_fn, config=config)
    )


def _stage_function(
    spec: ExperimentSpec, stage: int, training: bool
) -> Callable[..., Any]:
    """Return a function from what enters a stage to what leaves it; labels go along."""
    taken, left = _crossing(spec, stage), _crossing(spec, stage + 1)
    last = stage == max(spec.pipeline.stages)

    def run(*tensors: Any) -> Any:
        *entering, labels = tensors
        values = dict(zip(taken, entering, strict=True))
        for layer in _layers_of(spec, stage):
            sources = [values[name] for name in layer.inputs]
            made = make_layer(layer, spec.model.dtype)
            values[layer.name] = _call(made, layer, sources, training)
        if not last:
            return (*(values[name] for name in left), labels)
        outputs = values[_output(spec)]
        loss = loss_of(spec, labels, outputs)
        if training:
            return loss
        return loss, predictions_of(spec, outputs), classes_of(spec, labels)

    return run


def _call(made: Any, layer: Any, sources: list[Any], training: bool) -> Any:
    def with_mode(*args: Any) -> Any:
        return made(*args, training=training) if takes_training(made) else (made(*args))

    return call_layer(with_mode, layer, sources)


def _layers_of(spec: ExperimentSpec, stage: int) -> list[Any]:
    layers = [layer for layer in spec.model.layers if layer.kind != "Input"]
    return [
        layer
        for layer, its_stage in zip(layers, spec.pipeline.stages, strict=True)
        if its_stage == stage
    ]


def _crossing(spec: ExperimentSpec, stage: int) -> list[str]:
    """Return the values that a stage gets: all that it or a later one needs."""
    stage_of = dict.fromkeys(
        (layer.name for layer in spec.model.layers if layer.kind == "Input"), -1
    )
    layers = [layer for layer in spec.model.layers if layer.kind != "Input"]
    stage_of |= {
        layer.name: its_stage
        for layer, its_stage in zip(layers, spec.pipeline.stages, strict=True)
    }
    needed = {
        name
        for layer in layers
        if stage_of[layer.name] >= stage
        for name in layer.inputs
    }
    return [name for name in stage_of if stage_of[name] < stage and name in needed]


def _output(spec: ExperimentSpec) -> str:
    used = {name for layer in spec.model.layers for name in layer.inputs}
    return next(layer.name for layer in spec.model.layers if layer.name not in used)


def _optimizer_function(spec: ExperimentSpec) -> Callable[[Any], Any]:
    return lambda loss: OptimizerFunctionOutput(
        optimizer_of(spec, accumulates=False), loss
    )


def _evaluation_metrics(loss: Any, predictions: Any, labels: Any) -> dict[str, Any]:
    accuracy = tf.compat.v1.metrics.accuracy(labels, predictions)
    return {"loss": loss, "accuracy": accuracy}
