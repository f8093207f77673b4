"""Model classes of SDK 1.4, and exporting models for serving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import serving
from ipu_runtime.config import IPUConfig, reset_ipu_configuration
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras import (
    Model,
    PipelinedModel,
    PipelineModel,
    PipelineStage,
    Sequential,
    SequentialPipelineModel,
)

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(3)
X = RNG.normal(size=(33, 4)).astype(np.float32)
Y = RNG.normal(size=(33, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with IPUStrategy().scope():
        yield
    reset_ipu_configuration()


def by_hand(
    weights: list[np.ndarray], updates: int, per_update: int
) -> list[np.ndarray]:
    """Train dense layers without activation on summed gradients of batches of 2."""
    w1, b1, w2, b2 = (weight.copy() for weight in weights)
    for update in range(updates):
        total = [np.zeros_like(weight) for weight in (w1, b1, w2, b2)]
        for batch in range(update * per_update, (update + 1) * per_update):
            x, y = X[2 * batch : 2 * batch + 2], Y[2 * batch : 2 * batch + 2]
            hidden = x @ w1 + b1
            delta = 2 * (hidden @ w2 + b2 - y) / y.size
            back = delta @ w2.T
            for slot, gradient in enumerate(
                (x.T @ back, back.sum(0), hidden.T @ delta, delta.sum(0))
            ):
                total[slot] += gradient
        w1, b1, w2, b2 = (
            weight - 0.01 * gradient
            for weight, gradient in zip((w1, b1, w2, b2), total, strict=True)
        )
    return [w1, b1, w2, b2]


def test_a_step_of_a_pipeline_is_a_weight_update() -> None:
    first, second = keras.layers.Dense(3), keras.layers.Dense(2)
    first.build((2, 4))
    second.build((2, 3))
    start = [*first.get_weights(), *second.get_weights()]
    model = SequentialPipelineModel([[first], [second]], gradient_accumulation_count=8)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    history = model.fit(X, Y, batch_size=2, epochs=1, verbose=0, shuffle=False)
    assert len(history.history["loss"]) == 1
    # 33 samples are 16 whole batches of 2: two updates, the rest is dropped.
    for got, expected in zip(model.get_weights(), by_hand(start, 2, 8), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_arrays_lose_the_batches_that_fill_no_update(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = keras.layers.Dense(3), keras.layers.Dense(2)
    first.build((2, 4))
    second.build((2, 3))
    start = [*first.get_weights(), *second.get_weights()]
    model = SequentialPipelineModel([[first], [second]], gradient_accumulation_count=12)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(X, Y, batch_size=2, verbose=0, shuffle=False)
    assert "4 of 16 batches are dropped" in caplog.text
    for got, expected in zip(model.get_weights(), by_hand(start, 1, 12), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_steps_per_epoch_counts_updates() -> None:
    inputs = keras.Input((4,))
    with PipelineStage(0):
        x = keras.layers.Dense(3)(inputs)
    with PipelineStage(1):
        x = keras.layers.Dense(2)(x)
    model = PipelineModel(inputs, x, gradient_accumulation_count=4)
    optimizer = keras.optimizers.SGD(0.01)
    model.compile(optimizer, "mse")
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, drop_remainder=True)
    model.fit(data.repeat(), steps_per_epoch=3, epochs=2, verbose=0)
    assert int(optimizer.iterations.numpy()) == 6
    assert np.asarray(model.predict(X, batch_size=2)).shape == (32, 2)


def test_plain_models_replicate_and_accumulate() -> None:
    inputs = keras.Input((4,))
    model = Model(inputs, keras.layers.Dense(2)(inputs), accumulation_count=2)
    optimizer = keras.optimizers.SGD(0.01)
    model.compile(optimizer, "mse")
    model.fit(X, Y, batch_size=2, verbose=0)
    # 16 batches, 2 replicas, 2 batches per update.
    assert int(optimizer.iterations.numpy()) == 4
    assert isinstance(model.evaluate(X, Y, batch_size=2, verbose=0), float)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="list of layers"):
        Sequential((keras.layers.Dense(1),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="non-empty list of stages"):
        SequentialPipelineModel([], 2)
    with pytest.raises(ValueError, match="inputs and outputs"):
        Model()
    with pytest.raises(NotImplementedError, match="renamed"):
        PipelinedModel()
    model = Sequential([keras.layers.Dense(2)], accumulation_count=3)
    model.compile("sgd", "mse")
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, drop_remainder=True)
    with pytest.raises(ValueError, match=r"\(16\) must be a multiple .* \(3\)"):
        model.fit(batches)
    with pytest.raises(ValueError, match=r"\(4\) must be at least 6"):
        model.fit(X[:8], Y[:8], batch_size=2)
    with pytest.raises(ValueError, match=r"\(4\) must be divisible by .* \(2\)"):
        model.fit(batches.repeat(), steps_per_epoch=4, steps_per_run=3)
    with pytest.raises(NotImplementedError, match="validation_data"):
        model.fit(X, Y, validation_data=(X, Y))
    with pytest.raises(ValueError, match="cannot be called"):
        model(X)
    with pytest.raises(NotImplementedError):
        model.save("x")
    with pytest.raises(ValueError, match="`batch_size` must not be given"):
        model.fit(tf.data.Dataset.from_tensors((X, Y)), batch_size=2)


@pytest.fixture
def served() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


def test_exported_models_predict_the_same(served: keras.Model, tmp_path: Path) -> None:
    directory = tmp_path / "served"
    predict = served.export_for_ipu_serving(str(directory), batch_size=3)
    expected = np.asarray(served(X[:3]))
    np.testing.assert_allclose(predict(X[:3])[0], expected, rtol=1e-6)
    loaded = tf.saved_model.load(str(directory))
    again = loaded.signatures["serving_default"](tf.constant(X[:3]))
    np.testing.assert_allclose(again["output_0"], expected, rtol=1e-6)
    assert list((directory / "assets").iterdir())
    with pytest.raises(ValueError, match="not empty"):
        served.export_for_ipu_serving(str(directory), batch_size=3)
    served.export_for_ipu_serving(str(directory), batch_size=3, purge_export_dir=True)


def test_steps_around_an_exported_model(served: keras.Model, tmp_path: Path) -> None:
    signature = [tf.TensorSpec((3, 4), tf.int32)]
    predict = serving.export_keras(
        served,
        str(tmp_path / "served"),
        batch_size=3,
        output_names="scores",
        preprocessing_step=lambda x: tf.cast(x, tf.float32),
        preprocessing_step_signature=signature,
        postprocessing_step=lambda y: 2.0 * y,
        postprocessing_step_signature=[tf.TensorSpec((3, 2), tf.float32)],
    )
    numbers = np.arange(12, dtype=np.int32).reshape(3, 4)
    expected = 2 * np.asarray(served(numbers.astype(np.float32)))
    np.testing.assert_allclose(predict(numbers)["scores"], expected, rtol=1e-6)


def test_wrong_exports_are_refused(served: keras.Model, tmp_path: Path) -> None:
    directory = str(tmp_path / "served")
    with pytest.raises(ValueError, match="every dimension"):
        served.export_for_ipu_serving(directory)
    with pytest.raises(ValueError, match="preprocessing_step"):
        served.export_for_ipu_serving(
            directory, batch_size=2, preprocessing_step=lambda x: x
        )
    with pytest.raises(TypeError, match="TensorSpec"):
        served.export_for_ipu_serving(
            directory,
            batch_size=2,
            preprocessing_step=lambda x: x,
            preprocessing_step_signature=["float32"],
        )
    with IPUStrategy(enable_keras_extensions=False).scope():
        plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="IPU strategy"):
        serving.export_keras(plain, directory, batch_size=2)
