"""`IPUEstimator`: a model function, loops on the device, replicas."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.estimators.tf_estimator import EstimatorSpec, ModeKeys
from ipu_runtime.ipu_estimator import IPUEstimator
from workbench.backends.estimator_model import (
    classes_of,
    loss_of,
    optimizer_of,
    predictions_of,
)
from workbench.backends.estimator_training import train_with_estimator
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.model_builder import build_keras_model
from workbench.runs.run_context import RunContext


def train(spec: ExperimentSpec, context: RunContext) -> None:
    """Train and evaluate with an `IPUEstimator`."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        training = mode == ModeKeys.TRAIN
        outputs = build_keras_model(spec)(features, training=training)
        loss = loss_of(spec, labels, outputs)
        if training:
            train_op = optimizer_of(spec, accumulates=True).minimize(loss)
            return EstimatorSpec(mode, loss=loss, train_op=train_op)
        accuracy = tf.compat.v1.metrics.accuracy(
            classes_of(spec, labels), predictions_of(spec, outputs)
        )
        return EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    train_with_estimator(
        spec, context, lambda config: IPUEstimator(model_fn, config=config)
    )
