"""Models and symbolic tensors made, built and asked as in Keras 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_runtime
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.slow
ipu_runtime.install()

X = np.ones((8, 3), np.float32)


@pytest.fixture(autouse=True)
def _on_ipu() -> Any:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        yield


class Sized(keras.Model):
    """Takes two numbers first, which are no inputs and outputs."""

    def __init__(self, hidden: int, classes: int) -> None:
        super().__init__(self)
        self.inner = keras.layers.Dense(hidden)
        self.outer = keras.layers.Dense(classes)

    def call(self, x: Any, training: Any) -> Any:
        return self.outer(self.inner(x))


class MadeInBuild(keras.Model):
    """Makes its layer when shapes are known."""

    def build(self, input_shape: Any) -> None:
        self.dense = keras.layers.Dense(input_shape[-1])

    def call(self, x: Any) -> Any:
        return self.dense(x)


class Pair(keras.Model):
    """Takes two inputs in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs[0]) + self.dense(inputs[1])


def _functional(outputs: int = 1) -> Any:
    inputs = keras.Input((3,))
    layers = [keras.layers.Dense(1, name=f"out{i}") for i in range(outputs)]
    return keras.Model(inputs, [layer(inputs) for layer in layers])


@pytest.mark.parametrize("shape", [(None, 3), tf.TensorShape((None, 3)), [4, 3]])
def test_building_by_a_shape_makes_the_weights(shape: Any) -> None:
    model = Sized(4, 2)
    model.build(shape)
    assert [tuple(w.shape) for w in model.weights] == [(3, 4), (4,), (4, 2), (2,)]


def test_stages_are_known_after_building_by_several_shapes() -> None:
    model: Any = Pair()
    model.build([(1, 3), (1, 3)])
    assert [a.node_index for a in model.get_pipeline_stage_assignment()[:2]] == [0, 1]


def test_layers_made_in_build_train_on_the_device() -> None:
    model = MadeInBuild()
    model.compile("sgd", "mse")
    model.fit(X, X, batch_size=4, verbose=0)
    assert len(model.trainable_variables) == 2


def test_a_stack_may_be_built_by_a_batch_of_its_declared_shape() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.build((1, 3))
    with pytest.raises(ValueError, match="already been configured"):
        model.build((1, 4))


def test_metrics_without_a_loss_are_evaluated() -> None:
    model = _functional()
    model.compile(metrics=["mae"])
    wanted = np.reshape(model.predict(X, 4, verbose=0), (8, 1)) + 2.0
    loss, error = model.evaluate(X, wanted, 4, verbose=0)
    assert (loss, error) == (0.0, pytest.approx(2.0))
    with pytest.raises(ValueError, match="No loss"):
        model.fit(X, X[:, :1], 4, verbose=0)


def test_no_steps_per_execution_are_one() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=None)
    model.fit(X, X[:, :1], batch_size=4, verbose=0)
    assert model.optimizer.iterations == 2


def test_one_list_of_metrics_counts_for_every_output() -> None:
    model = _functional(outputs=2)
    model.compile("sgd", ["mse", "mse"], metrics=["mae"])
    history = model.fit(X, [X[:, :1]] * 2, batch_size=4, verbose=0).history
    assert {"out0_mae", "out1_mae"} <= history.keys()


def test_a_checkpoint_follows_an_accuracy_of_the_script(tmp_path: Path) -> None:
    def own_accuracy(y: Any, y_pred: Any) -> Any:
        return tf.reduce_mean(y_pred)

    model = _functional()
    model.compile("sgd", "mse", metrics=[own_accuracy])
    saving = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "best"),
        "own_accuracy",
        save_best_only=True,
        save_weights_only=True,
    )
    model.fit(X, X[:, :1], batch_size=4, verbose=0, callbacks=[saving])
    assert saving.mode == "max"


def test_data_come_in_a_dict_by_names_of_tensors() -> None:
    first, second = keras.Input((3,)), keras.Input((3,))
    model = keras.Model([first, second], keras.layers.Dense(1)(first + second))
    model.compile("sgd", "mse")
    data = {first.name: X, second.name: X}
    assert "loss" in model.fit(data, X[:, :1], batch_size=4, verbose=0).history


def test_tensors_lead_back_to_their_layers() -> None:
    model = _functional()
    inputs, output = model.inputs[0], model.outputs[0]
    assert {output.ref(): 1}[output.ref()] == 1
    assert output.ref().deref() is output
    assert output._keras_history.layer is model.layers[-1]
    assert model.layers[0].input is inputs
    assert inputs.name == model.layers[0].name
    assert output.name.partition("/")[0] == model.layers[-1]._name == "out0"
    assert output.name.endswith(":0")
