"""Which optimizer trains in a program that is made of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler
from ipu_runtime.engine.watch.interception import Program, intercepted_by
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.scopes import ipu_scope

pytestmark = pytest.mark.slow
v1 = tf.compat.v1


class Noted:
    """Notes which programs start."""

    wants_layers = True

    def __init__(self) -> None:
        self.programs: list[Program] = []

    def calling(
        self, call: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return {}

    def starting(self, program: Program) -> None:
        self.programs.append(program)

    def noticed(self, what: str) -> None:
        pass

    @property
    def optimizer(self) -> str:
        (program,) = self.programs
        assert program.request is not None
        return program.request.optimizer


def optimizer_of_compiled(step: Callable[[], Any]) -> str:
    noted = Noted()
    with tf.Graph().as_default(), intercepted_by(noted):
        with ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(step)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(program)
    return noted.optimizer


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: keras.optimizers.SGD(0.1), "sgd"),
        (lambda: keras.optimizers.SGD(0.1, momentum=0.9), "momentum"),
        (lambda: keras.optimizers.RMSprop(0.1), "rmsprop"),
        (lambda: keras.optimizers.Adam(0.1), "adam"),
        (lambda: keras.optimizers.Adagrad(0.1), "adagrad"),
    ],
)
def test_of_keras_in_a_step_of_a_strategy(make: Callable[[], Any], name: str) -> None:
    strategy, noted = IPUStrategy(), Noted()
    with strategy.scope(), intercepted_by(noted):
        layer, optimizer = keras.layers.Dense(1), make()
        layer.build((None, 2))
        optimizer.build(layer.trainable_variables)

        @tf.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(tf.ones((2, 2))))
            gradients = tape.gradient(loss, layer.trainable_variables)
            optimizer.apply(gradients, layer.trainable_variables)
            return loss

        strategy.run(step)
    assert noted.optimizer == name


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: v1.train.GradientDescentOptimizer(0.1), "sgd"),
        (lambda: v1.train.MomentumOptimizer(0.1, 0.9), "momentum"),
        (lambda: v1.train.RMSPropOptimizer(0.1), "rmsprop"),
        (lambda: v1.train.AdamOptimizer(0.1), "adam"),
        (lambda: v1.train.AdagradOptimizer(0.1), "adagrad"),
    ],
)
def test_of_a_compiled_function(make: Callable[[], Any], name: str) -> None:
    def step() -> Any:
        loss = tf.reduce_sum(keras.layers.Dense(1)(tf.ones((2, 2))))
        return loss, make().minimize(loss)

    assert optimizer_of_compiled(step) == name


def test_averages_of_weights_are_no_optimizer() -> None:
    def step() -> Any:
        loss = tf.reduce_sum(keras.layers.Dense(1)(tf.ones((2, 2))))
        averages = tf.train.ExponentialMovingAverage(0.9)
        kernel = v1.trainable_variables()[0]
        with tf.control_dependencies([v1.train.AdamOptimizer(0.1).minimize(loss)]):
            return loss, averages.apply([kernel])

    assert optimizer_of_compiled(step) == "adam"
