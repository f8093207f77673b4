"""Trainings in sessions: what estimators and compiled programs come to."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import popdist
import popdist.tensorflow
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import horovod as hvd
from tensorflow.python.ipu.distributed.popdist_strategy import PopDistStrategy

v1 = tf.compat.v1
BATCH = 4
Data = Callable[[], tuple[Any, Any]]


def estimated(data: Data) -> list[Any]:
    """Train with an estimator, go on from its checkpoint, and evaluate with all."""
    kept, folder = _Kept(), Path(tempfile.mkdtemp())
    wrap = ipu.optimizers.CrossReplicaOptimizer if _alone() else lambda inner: inner

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        training = mode == tf.estimator.ModeKeys.TRAIN
        loss, classes = _loss_and_classes(features, labels, training)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=wrap(_momentum()).minimize(loss) if training else None,
            eval_metric_ops={"accuracy": v1.metrics.accuracy(labels, classes)},
        )

    estimator = ipu.ipu_estimator.IPUEstimator(
        model_fn, config=_worker_config(folder, _worker_strategy())
    )
    for _ in range(2):
        estimator.train(_input_fn(data), hooks=[kept], steps=1)
    results = estimator.evaluate(_input_fn(data), steps=2)
    written = bool(list(folder.iterdir()))
    assert written == (popdist.getInstanceIndex() == 0)
    assert results["global_step"] == 2
    return [*kept.weights, results["accuracy"], kept.loss]


def updated_on_host(data: Data) -> list[Any]:
    """Train with gradients that the hosts exchange; replicas of one process cannot."""
    kept = _Kept()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss, _ = _loss_and_classes(features, labels, training=True)
        optimizer = _momentum()
        if _alone():
            averaging = ipu.optimizers.CrossReplicaOptimizer(optimizer)
            train_op = averaging.minimize(loss)
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
        gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)

        def update(*taken: Any) -> Any:
            return optimizer.apply_gradients(zip(taken, variables, strict=True))

        return ipu.ipu_estimator.IPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=tf.identity(loss),
            host_call=(update, list(gradients)),
        )

    config = _worker_config(Path(tempfile.mkdtemp()), _worker_strategy())
    ipu.ipu_estimator.IPUEstimator(model_fn, config=config).train(
        _input_fn(data), hooks=[kept], steps=2
    )
    return [*kept.weights, kept.loss]


def estimated_pipeline(data: Data, accumulated: int) -> list[Any]:
    """Train a pipeline of two stages on a device that all instances share."""
    kept = _Kept()

    def first(features: Any, labels: Any) -> Any:
        hidden = keras.layers.Dense(8, activation="relu")(features)
        return keras.layers.Dropout(0.3)(hidden, training=True), labels

    def second(hidden: Any, labels: Any) -> Any:
        logits = keras.layers.Dense(3)(hidden)
        return v1.losses.sparse_softmax_cross_entropy(labels, logits)

    def model_fn(mode: str) -> Any:
        return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
            mode,
            [first, second],
            accumulated,
            optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                ipu.optimizers.CrossReplicaOptimizer(_momentum()), loss
            ),
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Sequential,
        )

    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, ipus_per_replica=2)
    estimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        model_fn,
        config=ipu.ipu_run_config.RunConfig(
            ipu.ipu_run_config.IPURunConfig(
                2 * accumulated,
                config,
                num_replicas=popdist.getNumLocalReplicas(),
                num_shards=2,
            ),
            model_dir=tempfile.mkdtemp(),
            train_distribute=PopDistStrategy(),
        ),
    )
    estimator.train(_input_fn(data), hooks=[kept], steps=2 * accumulated)
    return [*kept.weights, kept.loss]


def compiled(data: Data) -> list[Any]:
    """Train with a program of a script of TensorFlow 1."""

    def body(total: Any, x: Any, y: Any) -> Any:
        loss, _ = _loss_and_classes(x, y, training=True)
        averaging = ipu.optimizers.CrossReplicaOptimizer(_momentum())
        return total + loss, averaging.minimize(loss)

    with tf.Graph().as_default(), PopDistStrategy().scope():
        dataset = tf.data.Dataset.from_tensor_slices(data())
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
            dataset.batch(BATCH, drop_remainder=True)
        )
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            (own,) = ipu.ipu_compiler.compile(
                lambda: ipu.loops.repeat(2, body, [tf.constant(0.0)], infeed)
            )
        total = hvd.allreduce(own, hvd.Average)
        with v1.Session() as session:
            session.run(infeed.initializer)
            session.run(v1.global_variables_initializer())
            loss = session.run(total)
            return [*session.run(v1.trainable_variables()), loss]


def refused() -> Iterator[str]:
    """Yield what is said to scripts that ask for what there is not."""
    strategy, folder = _worker_strategy(), Path(tempfile.mkdtemp())
    estimator = ipu.ipu_estimator.IPUEstimator
    workers = tf.train.ClusterSpec({"worker": ["a:1", "b:1", "c:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(workers)
    asked: list[Callable[[], Any]] = [
        lambda: estimator(refused, config=_worker_config(folder, strategy, loop=2)),
        lambda: estimator(
            refused, config=_worker_config(folder, strategy), train_batch_size=3
        ),
        lambda: ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1(resolver),
        lambda: strategy.run(lambda: None),
    ]
    with tf.Graph().as_default():
        for ask in asked:
            try:
                ask()
            except (NotImplementedError, ValueError) as error:
                yield str(error)


class _Kept(tf.estimator.SessionRunHook):
    """Keeps the weights that a process itself has in the end."""

    def __init__(self) -> None:
        self.weights: list[Any] = []
        self.loss = 0.0

    def before_run(self, run_context: Any) -> Any:
        return tf.estimator.SessionRunArgs("loss:0")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.loss = run_values.results

    def end(self, session: Any) -> None:
        self.weights = session.run(v1.trainable_variables())


def _loss_and_classes(features: Any, labels: Any, training: bool) -> tuple[Any, Any]:
    hidden = keras.layers.Dense(8, activation="relu")(features)
    hidden = keras.layers.Dropout(0.3)(hidden, training=training)
    logits = keras.layers.Dense(3)(hidden)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    return loss, tf.argmax(logits, -1, output_type=tf.int32)


def _momentum() -> Any:
    return v1.train.MomentumOptimizer(0.1, 0.9)


def _alone() -> bool:
    return popdist.getNumInstances() == 1


def _worker_strategy() -> Any:
    """Return the strategy whose workers have a device each; None for one process."""
    if _alone():
        return None
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1(
        resolver, variables_on_host=True
    )


def _worker_config(folder: Path, strategy: Any, loop: int = 1) -> Any:
    replicas, config = popdist.getNumLocalReplicas(), ipu.config.IPUConfig()
    config.auto_select_ipus = replicas
    return ipu.ipu_run_config.RunConfig(
        ipu.ipu_run_config.IPURunConfig(loop, config, num_replicas=replicas),
        model_dir=str(folder),
        train_distribute=strategy,
        eval_distribute=strategy,
    )


def _input_fn(data: Data) -> Callable[..., Any]:
    def make(input_context: Any = None) -> Any:
        if not _alone():
            place = (input_context.num_input_pipelines, input_context.input_pipeline_id)
            assert place == (popdist.getNumInstances(), popdist.getInstanceIndex())
        x, y = data()
        dataset = tf.data.Dataset.from_tensor_slices((np.asarray(x), np.asarray(y)))
        return dataset.batch(BATCH, drop_remainder=True)

    return make
