"""What scripts hand to Keras models under a strategy, as Keras itself takes it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.pipeline_stage import PipelineStage

pytestmark = pytest.mark.slow

X = np.random.RandomState(0).rand(32, 4).astype("float32")
Y = (X.sum(axis=1) > 2).astype("int32")


@pytest.fixture
def strategy() -> Iterator[None]:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with IPUStrategy().scope():
        yield


def _dataset() -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4, drop_remainder=True)


def _dense(start: Any = None) -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=4)
    if start is not None:
        model.set_weights(start)
    return model


@pytest.mark.usefixtures("strategy")
def test_a_batch_size_beside_a_data_set_is_ignored() -> None:
    model = _dense()
    assert model.fit(_dataset(), batch_size=7, verbose=0).params["steps"] == 4
    same = model.evaluate(_dataset(), verbose=0)
    assert model.evaluate(_dataset(), batch_size=7, verbose=0) == same
    assert model.predict(_dataset(), batch_size=7, verbose=0).shape == (32, 2)


def test_class_weights_count_with_a_data_set(
    request: pytest.FixtureRequest,
) -> None:
    plain = _dense()
    start = plain.get_weights()
    weights = {0: 1.0, 1: 5.0}
    plain.fit(X, Y, batch_size=8, shuffle=False, class_weight=weights, verbose=0)
    request.getfixturevalue("strategy")
    model = _dense(start)
    # Two replicas with batches of 4 see what the host sees in a batch of 8; gradients
    # of replicas are summed, and a mean over 8 is half of two means over 4.
    model.optimizer.learning_rate = 0.005
    model.fit(_dataset(), class_weight=weights, verbose=0)
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("strategy")
def test_a_model_without_trainable_weights_trains_nothing() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Activation("relu")])
    model.compile("sgd", "mse", steps_per_execution=4)
    history = model.fit(X, X + 1.0, batch_size=4, verbose=0)
    assert history.history["loss"] == [pytest.approx(1.0)]


@pytest.mark.usefixtures("strategy")
def test_a_caller_that_builds_a_graph_may_evaluate() -> None:
    model = _dense()
    expected = model.evaluate(X, Y, batch_size=4, verbose=0)
    with tf.Graph().as_default():
        assert model.evaluate(X, Y, batch_size=4, verbose=0) == expected


@pytest.mark.usefixtures("strategy")
def test_layers_see_the_static_batch_size_that_the_model_declares() -> None:
    seen = []

    class Looking(keras.layers.Layer):
        """Remembers the shapes that it is called with."""

        def call(self, x: Any) -> Any:
            seen.append(tuple(x.shape))
            return x * 1.0

    start = keras.Input((4,), batch_size=4)
    model = keras.Model(start, keras.layers.Dense(2)(Looking()(start)))
    model.compile("sgd", "mse", steps_per_execution=4)
    model.fit(X, X[:, :2], batch_size=4, verbose=0)
    # The plan looks at the layer with another batch size, but never with none.
    assert (4, 4) in seen
    assert all(None not in shape for shape in seen)


class Staged(keras.Model):
    """A model whose calls, not whose layers, are put into stages."""

    def __init__(self, complete: bool) -> None:
        super().__init__()
        self.first, self.second = keras.layers.Dense(5), keras.layers.Dense(2)
        self._complete = complete

    def call(self, x: Any) -> Any:
        with PipelineStage(0):
            x = self.first(x)
        if not self._complete:
            return self.second(x)
        with PipelineStage(1):
            return self.second(x)


def _compiled(model: Any, **options: Any) -> Any:
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=8, **options)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=8)
    return model


@pytest.mark.usefixtures("strategy")
def test_stages_inside_of_call_pipeline_a_subclassed_model() -> None:
    model = _compiled(Staged(complete=True))
    model.fit(_dataset(), verbose=0)
    stages = [item.pipeline_stage for item in model.get_pipeline_stage_assignment()]
    assert stages == [0, 1]


@pytest.mark.usefixtures("strategy")
def test_a_subclassed_model_with_some_calls_in_stages_is_refused() -> None:
    model = _compiled(Staged(complete=False))
    with pytest.raises(ValueError, match="must have an associated pipeline stage"):
        model.fit(_dataset(), verbose=0)


@pytest.mark.parametrize(
    "dtype", [np.float16, tf.float16, "float16", lambda _: "float16"]
)
@pytest.mark.usefixtures("strategy")
def test_a_type_may_be_given_in_every_form(dtype: Any) -> None:
    keras.utils.set_random_seed(1)
    layers = [keras.Input((4,)), keras.layers.Dense(5), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    model.set_pipeline_stage_assignment([0, 1])
    _compiled(
        model,
        gradient_accumulation_dtype=dtype,
        accumulate_outfeed=True,
        accumulate_outfeed_dtype=np.float32,
    )
    before = model.get_weights()
    model.fit(_dataset(), verbose=0)
    # The only update is by gradients that were accumulated in half precision.
    moved = (before[1] - model.get_weights()[1]) / np.float32(0.01)
    assert np.abs(moved - moved.astype("float16")).max() < 1e-5


def test_models_of_older_keras_are_refused(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorflow.python import keras as carried

    class Model(carried.Model):
        """What the package `tf_keras` has under this name."""

    package = types.ModuleType("tf_keras")
    monkeypatch.setattr(package, "Model", Model, raising=False)
    monkeypatch.setitem(sys.modules, "tf_keras", package)
    request.getfixturevalue("strategy")
    model = carried.models.Sequential([carried.layers.Dense(2, input_shape=(4,))])
    model.compile("sgd", "mse")
    for run in (model.fit, model.evaluate):
        with pytest.raises(NotImplementedError, match=r"tensorflow\.python\.keras"):
            run(X, X[:, :2], batch_size=4)
    with pytest.raises(NotImplementedError, match="is a model of tf_keras"):
        Model().predict(X)
