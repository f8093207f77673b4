"""Modules where Keras 2 kept its classes."""

from __future__ import annotations

import importlib

import keras
import pytest
import tensorflow as tf

import ipu_runtime

pytestmark = pytest.mark.slow
ipu_runtime.install()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("keras.engine.base_layer", "Layer"),
        ("keras.engine.input_layer", "Input"),
        ("keras.engine.input_layer", "InputLayer"),
        ("keras.engine.input_spec", "InputSpec"),
        ("keras.engine.keras_tensor", "KerasTensor"),
        ("keras.engine.sequential", "Sequential"),
        ("keras.engine.training", "Model"),
        ("keras.optimizer_v2.adam", "Adam"),
        ("keras.optimizer_v2.gradient_descent", "SGD"),
        ("keras.optimizer_v2.learning_rate_schedule", "ExponentialDecay"),
        ("keras.optimizer_v2.rmsprop", "RMSprop"),
    ],
)
def test_a_gone_module_has_the_class_of_today(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    homes = (keras, keras.layers, keras.optimizers, keras.optimizers.schedules)
    assert any(found is getattr(home, name, None) for home in homes)


def test_the_strategy_of_today_is_found_where_it_was() -> None:
    context = importlib.import_module(
        "tensorflow.python.distribute.distribution_strategy_context"
    )
    assert context.get_strategy() is tf.distribute.get_strategy()


def test_a_model_of_inputs_and_outputs_is_functional() -> None:
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    functional = importlib.import_module("keras.engine.functional")
    assert type(model) is functional.Functional


def test_gone_packages_are_attributes_and_say_what_they_lack() -> None:
    assert keras.optimizer_v2.gradient_descent.SGD is keras.optimizers.SGD
    assert keras.engine.training.Model is keras.Model
    with pytest.raises(AttributeError, match="has no attribute 'data_adapter'"):
        keras.engine.data_adapter  # noqa: B018
