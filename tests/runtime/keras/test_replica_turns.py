"""What code of a Keras model sees of replicas: outfeeds, its number, no exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig, reset_ipu_configuration
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras import PipelineStage
from ipu_runtime.ops.cross_replica_ops import cross_replica_sum
from ipu_runtime.ops.replication_ops import replication_index

pytestmark = pytest.mark.slow

X = np.arange(64 * 3, dtype=np.float32).reshape(64, 3) / 100
BATCHES = X.reshape(8, 2, 4, 3)
"""By iteration and replica."""


@pytest.fixture(autouse=True)
def _clean_system() -> Iterator[None]:
    yield
    reset_ipu_configuration()


class Watching(keras.layers.Layer):
    """Enqueues what comes by, and which replica it belongs to."""

    def __init__(self, *queues: IPUOutfeedQueue) -> None:
        super().__init__()
        self.queues = queues

    def call(self, x: Any) -> Any:
        for queue in self.queues:
            queue.enqueue({"x": x, "replica": replication_index()})
        return x


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Enqueues the rate of every update."""

    def __init__(self, queue: IPUOutfeedQueue) -> None:
        self.queue = queue

    def __call__(self, step: Any) -> Any:
        rate = 0.1 / (1.0 + tf.cast(step, tf.float32))
        self.queue.enqueue(rate)
        return rate


def fitted(ipus: int, layer: Any, optimizer: Any, pipelined: bool = False) -> None:
    """Train on all batches with four of each replica in an update."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    with IPUStrategy().scope():
        inputs = keras.Input((3,))
        with PipelineStage(0):
            x = layer(inputs)
        with PipelineStage(1):
            x = keras.layers.Dense(1)(x)
        model = keras.Model(inputs, x)
        if pipelined:
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        else:
            model.reset_pipeline_stage_assignment()
            model.set_gradient_accumulation_options(4)
        model.compile(optimizer, "mse", steps_per_execution=8)
        model.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)


@pytest.mark.parametrize("pipelined", [False, True])
def test_outfeeds_keep_replicas_apart(pipelined: bool) -> None:
    every, last, rates = (
        IPUOutfeedQueue(mode)
        for mode in (None, IPUOutfeedMode.LAST, IPUOutfeedMode.ALL)
    )
    optimizer = keras.optimizers.SGD(Schedule(rates))
    fitted(4 if pipelined else 2, Watching(every, last), optimizer, pipelined)
    newest = last.dequeue()
    np.testing.assert_array_equal(newest["x"], BATCHES[-1])
    np.testing.assert_array_equal(newest["replica"], [0, 1])
    values = every.dequeue()
    np.testing.assert_array_equal(values["x"], BATCHES)
    np.testing.assert_array_equal(values["replica"], [[0, 1]] * 8)
    np.testing.assert_allclose(rates.dequeue(), [[0.1, 0.1], [0.05, 0.05]])
    with pytest.raises(tf.errors.FailedPreconditionError):
        last.dequeue()


def test_outfeeds_of_replicas_can_be_iterated_over() -> None:
    queue = IPUOutfeedQueue()
    fitted(2, Watching(queue), "sgd")
    for element, expected in zip(queue, BATCHES, strict=True):
        np.testing.assert_array_equal(element["x"], expected)


def test_exchanges_inside_of_a_replicated_model_are_refused() -> None:
    layer = keras.layers.Lambda(cross_replica_sum)
    fitted(1, layer, "sgd")
    with pytest.raises(NotImplementedError, match="sum over replicas inside"):
        fitted(2, layer, "sgd")
