"""The arguments of `fit`, `evaluate` and `predict` are Keras' own, declared once."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest

from ipu_runtime.engine.run import model_runner
from ipu_runtime.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.slow

X = np.ones((8, 2), np.float32)
Y = np.ones((8, 1), np.float32)
METHODS = ("fit", "evaluate", "predict")


def made() -> Any:
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("method", METHODS)
def test_an_extended_model_has_the_signature_of_a_stock_model(method: str) -> None:
    stock = keras.Sequential([keras.layers.Dense(1)])
    expected = inspect.signature(getattr(stock, method))
    assert inspect.signature(getattr(made(), method)) == expected


@pytest.mark.parametrize("method", METHODS)
def test_the_engine_takes_every_argument_with_keras_default(method: str) -> None:
    def defaults(function: Any, *before: str) -> dict[str, Any]:
        parameters = inspect.signature(function).parameters.values()
        return {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.name not in before
            and parameter.kind is not parameter.VAR_KEYWORD
        }

    engine = defaults(getattr(model_runner, method), "model", "options", "device")
    assert engine == defaults(getattr(keras.Model, method), "self")


@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_argument_is_refused_by_name(method: str) -> None:
    words = rf"{method}\(\) got an unexpected keyword argument 'colour'"
    with pytest.raises(TypeError, match=words):
        getattr(made(), method)(X, colour="red")


def test_arguments_may_be_given_by_place_and_those_of_keras_2_are_ignored() -> None:
    model = made()
    history = model.fit(X, Y, 4, 2, 0, workers=2, use_multiprocessing=True)
    assert history.epoch == [0, 1]
    assert model.predict(X, 4, 0, max_queue_size=3).shape == (8, 1)
