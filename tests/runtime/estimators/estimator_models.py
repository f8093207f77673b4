"""Tiny models and data for estimator tests, as users would write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_runtime import optimizers
from ipu_runtime.config import IPUConfig
from ipu_runtime.estimators.tf_estimator import EstimatorSpec, ModeKeys
from ipu_runtime.ipu_estimator import IPUEstimator
from ipu_runtime.ipu_pipeline_estimator import (
    IPUPipelineEstimator,
    IPUPipelineEstimatorSpec,
)
from ipu_runtime.ipu_run_config import IPURunConfig, RunConfig
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput

v1 = tf.compat.v1
FEATURES = np.random.RandomState(0).rand(64, 5).astype("float32")
LABELS = (FEATURES.sum(axis=1) > 2.5).astype("int32")


def batches(batch_size: int = 8) -> Any:
    """Return the data as an endless dataset."""
    data = tf.data.Dataset.from_tensor_slices((FEATURES, LABELS))
    return data.batch(batch_size, drop_remainder=True).repeat()


def first_part(features: Any, training: bool, dropout: float = 0.0) -> Any:
    """Return the hidden layer."""
    hidden = keras.layers.Dense(7, activation="relu")(features)
    return keras.layers.Dropout(dropout)(hidden, training=training)


def second_part(hidden: Any) -> Any:
    """Return the logits."""
    return keras.layers.Dense(2)(hidden)


def loss_of(labels: Any, logits: Any) -> Any:
    """Return the mean loss of a batch."""
    return v1.losses.sparse_softmax_cross_entropy(labels, logits)


def momentum() -> Any:
    """Return the optimizer of most tests."""
    return v1.train.MomentumOptimizer(0.1, 0.9)


def model_fn(
    wrap: Callable[[Any], Any] = lambda optimizer: optimizer, dropout: float = 0.0
) -> Callable[..., Any]:
    """Return a model function whose optimizer is wrapped."""

    def build(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        training = mode == ModeKeys.TRAIN
        logits = second_part(first_part(features, training, dropout))
        classes = tf.argmax(logits, -1, output_type=tf.int32)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions={"classes": classes})
        loss = loss_of(labels, logits)
        train_op = wrap(momentum()).minimize(loss) if training else None
        metrics = {"accuracy": v1.metrics.accuracy(labels, classes)}
        return EstimatorSpec(
            mode, loss=loss, train_op=train_op, eval_metric_ops=metrics
        )

    return build


def pipeline_model_fn(
    count: int, dropout: float = 0.0, **options: Any
) -> Callable[..., Any]:
    """Return the same model as two stages."""

    def build(mode: str) -> IPUPipelineEstimatorSpec:
        training = mode == ModeKeys.TRAIN

        def first(features: Any, labels: Any = None) -> Any:
            hidden = first_part(features, training, dropout)
            return hidden if labels is None else (hidden, labels)

        def second(hidden: Any, labels: Any = None) -> Any:
            logits = second_part(hidden)
            if training:
                return loss_of(labels, logits)
            classes = tf.argmax(logits, -1, output_type=tf.int32)
            if labels is None:
                return {"classes": classes}
            return loss_of(labels, logits), classes, labels

        def metrics(loss: Any, classes: Any, labels: Any) -> dict[str, Any]:
            return {"loss": loss, "accuracy": v1.metrics.accuracy(labels, classes)}

        return IPUPipelineEstimatorSpec(
            mode,
            [first, second],
            count,
            eval_metrics_fn=metrics,
            optimizer_function=(
                lambda loss: OptimizerFunctionOutput(
                    optimizers.CrossReplicaOptimizer(momentum()), loss
                )
            )
            if training
            else None,
            **options,
        )

    return build


def run_config(
    directory: Path,
    loop: int,
    replicas: int = 1,
    shards: int = 1,
    recompute: bool = False,
    **options: Any,
) -> RunConfig:
    """Return a run configuration with the IPUs that replicas and shards need."""
    config = IPUConfig()
    config.auto_select_ipus = replicas * shards
    config.allow_recompute = recompute
    return RunConfig(
        IPURunConfig(loop, config, num_replicas=replicas, num_shards=shards),
        model_dir=str(directory),
        **{
            "tf_random_seed": 3,
            "log_step_count_steps": None,
            "checkpoint_save_graph_def": False,
            **options,
        },
    )


def plain_estimator(
    directory: Path, function: Any, loop: int = 4, **options: Any
) -> IPUEstimator:
    """Return an estimator of a plain model."""
    return IPUEstimator(function, config=run_config(directory, loop, **options))


def pipeline_estimator(
    directory: Path, function: Any, loop: int = 8, **options: Any
) -> IPUPipelineEstimator:
    """Return an estimator of a pipelined model on two IPUs per replica."""
    config = run_config(directory, loop, shards=2, **options)
    return IPUPipelineEstimator(function, config=config)


def weights(estimator: Any) -> list[Any]:
    """Return the trained weights of the newest checkpoint, in a fixed order."""
    names = [
        name
        for name in sorted(estimator.get_variable_names())
        if name.endswith(("kernel", "bias"))
    ]
    return [estimator.get_variable_value(name) for name in names]
