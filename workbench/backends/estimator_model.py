"""The model of an experiment as the older, graph-style API states it."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ipu_runtime import optimizers
from ipu_runtime.engine.build.tracing_context import add_progress_scalar
from workbench.data.model_tensors import compared_outputs
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.training.optimizers import OPTIMIZERS

v1 = tf.compat.v1


def loss_of(spec: ExperimentSpec, labels: Any, outputs: Any) -> Any:
    """Return the mean loss of a batch, and show its accuracy to whoever watches."""
    ((_, loss),) = compared_outputs(spec)
    right = tf.equal(classes_of(spec, labels), predictions_of(spec, outputs))
    add_progress_scalar("accuracy", tf.reduce_mean(tf.cast(right, tf.float32)))
    logits = {"from_logits": True} if loss.from_logits else {}
    values = getattr(keras.losses, loss.function)(labels, outputs, **logits)
    return tf.reduce_mean(values)


def classes_of(spec: ExperimentSpec, labels: Any) -> Any:
    """Return the class numbers behind labels, or yes and no."""
    ((_, loss),) = compared_outputs(spec)
    if loss.labels == "binary":
        return tf.cast(labels > 0.5, tf.int32)
    if (loss.labels or spec.data.labels) == "sparse":
        return labels
    return tf.argmax(labels, axis=-1, output_type=tf.int32)


def predictions_of(spec: ExperimentSpec, outputs: Any) -> Any:
    """Return the predicted class numbers, or yes and no."""
    ((_, loss),) = compared_outputs(spec)
    if loss.labels == "binary":
        return tf.cast(outputs > loss.threshold, tf.int32)
    return tf.argmax(outputs, axis=-1, output_type=tf.int32)


def optimizer_of(spec: ExperimentSpec, accumulates: bool) -> Any:
    """Return the optimizer, wrapped for replicas and, if asked to, accumulation."""
    names = OPTIMIZERS[spec.train.optimizer]
    settings = names.settings(spec.train.momentum)
    optimizer = getattr(v1.train, names.v1)(spec.train.learning_rate, **settings)
    replicated = topology(spec).replicas > 1
    mini_batches = spec.execution.gradient_accumulation
    if accumulates and mini_batches > 1:
        wrapper = (
            optimizers.CrossReplicaGradientAccumulationOptimizerV2
            if replicated
            else optimizers.GradientAccumulationOptimizerV2
        )
        method = spec.execution.accumulation_reduction
        return wrapper(optimizer, mini_batches, reduction_method=method)
    return optimizers.CrossReplicaOptimizer(optimizer) if replicated else optimizer
