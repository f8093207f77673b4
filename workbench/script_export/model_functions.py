"""The model functions of estimators, as source: whole models and stages."""

from __future__ import annotations

from workbench.data.model_tensors import compared_outputs
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.script_export.layer_code import functional_lines, stage_lines
from workbench.script_export.parts import (
    layers_of,
    pipeline_arguments,
    stage_count,
)
from workbench.script_export.python_text import call, keywords, literal
from workbench.script_export.script_error import ScriptError
from workbench.training.optimizers import OPTIMIZERS

_MODEL_FN = """\
def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    x = build_model()(features, training=training)
{loss}
    if training:
{optimizer}
        train_op = optimizer.minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
    predictions = {guess}
    metrics = {{"accuracy": tf.compat.v1.metrics.accuracy(labels, predictions)}}
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)"""


def _optimizer_lines(spec: ExperimentSpec, indent: int) -> list[str]:
    """Return the optimizer of the older API, wrapped for replicas and accumulation."""
    names = OPTIMIZERS[spec.train.optimizer]
    settings = keywords(names.settings(spec.train.momentum))
    given = ", ".join(['params["learning_rate"]', *settings])
    lines = [f"optimizer = tf.compat.v1.train.{names.v1}({given})"]
    replicated = topology(spec).replicas > 1
    accumulated = spec.execution.gradient_accumulation > 1 and not spec.pipeline.stages
    if accumulated:
        name = "GradientAccumulationOptimizerV2"
        name = f"CrossReplica{name}" if replicated else name
        count = 'num_mini_batches=params["gradient_accumulation_count"]'
        method = spec.execution.accumulation_reduction
        arguments = ["optimizer", count, f"reduction_method={literal(method)}"]
        lines += call(f"ipu.optimizers.{name}", arguments, before="optimizer = ")
    elif replicated:
        lines.append("optimizer = ipu.optimizers.CrossReplicaOptimizer(optimizer)")
    return [" " * indent + line for line in lines]


def _loss_lines(spec: ExperimentSpec, indent: int) -> list[str]:
    """Return `loss` of a batch."""
    ((_, loss),) = compared_outputs(spec)
    if loss.labels not in ("sparse", "binary"):
        raise ScriptError(
            f"train.loss: an estimator's script has no {loss.name}; use "
            "sparse_categorical_crossentropy or binary_crossentropy"
        )
    arguments = ["labels", "x", *(["from_logits=True"] if loss.from_logits else [])]
    function = f"keras.losses.{loss.function}"
    lines = call(function, arguments, indent=indent, before="losses = ")
    return [*lines, f"{' ' * indent}loss = tf.reduce_mean(losses)"]


def _guess_code(spec: ExperimentSpec) -> str:
    ((_, loss),) = compared_outputs(spec)
    if loss.labels == "binary":
        return f"tf.cast(x > {loss.threshold}, tf.float32)"
    return "tf.argmax(x, axis=-1, output_type=tf.int32)"


def plain_model(spec: ExperimentSpec) -> list[str]:
    """Return the functions of an IPUEstimator's model."""
    build = ["def build_model():", *functional_lines(layers_of(spec))]
    model_fn = _MODEL_FN.format(
        loss="\n".join(_loss_lines(spec, 4)),
        guess=_guess_code(spec),
        optimizer="\n".join(_optimizer_lines(spec, 8)),
    )
    return ["\n".join(build), model_fn]


def pipelined_model(spec: ExperimentSpec) -> list[str]:
    """Return the function of an IPUPipelineEstimator's model, stages inside."""
    stages = stage_count(spec)
    layers = layers_of(spec)
    lines = [
        "def model_fn(mode, params):",
        "    training = mode == tf.estimator.ModeKeys.TRAIN",
        "",
    ]
    for stage in range(stages):
        body = stage_lines(layers, spec.pipeline.stages, stage, indent=8)
        lines += [f"    def stage_{stage}(x, labels):", *body]
        if stage < stages - 1:
            lines += ["        return x, labels", ""]
    lines += [
        *_loss_lines(spec, 8),
        "        if training:",
        "            return loss",
        f"        return loss, {_guess_code(spec)}, labels",
        "",
        "    def update(loss):",
        *_optimizer_lines(spec, 8),
        "        return ipu.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)",
        "",
        "    def score(loss, guesses, labels):",
        "        accuracy = tf.compat.v1.metrics.accuracy(labels, guesses)",
        '        return {"loss": loss, "accuracy": accuracy}',
        "",
    ]
    names = ", ".join(f"stage_{stage}" for stage in range(stages))
    arguments = [
        "mode",
        f"computational_stages=[{names}]",
        "gradient_accumulation_count=count",
        "eval_metrics_fn=score",
        "optimizer_function=update if training else None",
        f"reduction_method={literal(spec.execution.accumulation_reduction)}",
        *pipeline_arguments(spec.pipeline),
    ]
    lines += [
        '    count = params["gradient_accumulation_count"] if training else NUM_STAGES',
        *call(
            "ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec",
            arguments,
            indent=4,
            before="return ",
        ),
    ]
    return ["\n".join(lines)]
