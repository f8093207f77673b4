"""Settings that change what data a device gets, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import (
    DeviceConnectionType,
    IPUConfig,
    reset_ipu_configuration,
)
from ipu_runtime.engine.feeds.feed import synthetic_tensor
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops.pipelining_ops import PipelineSchedule

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def _clean_system() -> Iterator[None]:
    reset_ipu_configuration()
    yield
    reset_ipu_configuration()


def compiled(optimizer: Any = "sgd") -> keras.Model:
    keras.utils.set_random_seed(3)
    with IPUStrategy().scope():
        layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model.compile(optimizer, "mse", steps_per_execution=2)
    return model


def unreadable() -> tf.data.Dataset:
    """Return a data set that fails as soon as somebody reads it."""

    def fail() -> Iterator[Any]:
        raise AssertionError("the data set was read")
        yield

    spec = (tf.TensorSpec((4, 3)), tf.TensorSpec((4, 1)))
    data = tf.data.Dataset.from_generator(fail, output_signature=spec)
    return data.apply(tf.data.experimental.assert_cardinality(4))


def test_synthetic_data_are_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    model = compiled()
    trained = model.fit(
        unreadable(), validation_data=(X, Y), validation_batch_size=4, verbose=0
    )
    assert trained.history == {"loss": [0.0], "val_loss": [0.0]}
    assert model.predict(unreadable(), verbose=0).tolist() == [[0.0]] * 16


def test_synthetic_data_have_the_value_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = "--synthetic_data_categories=infeed --synthetic_data_initializer=2"
    model = compiled()
    expected = model(np.full((4, 3), 2, np.float32)).numpy()
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    predicted = model.predict(unreadable(), verbose=0)
    np.testing.assert_allclose(predicted, np.tile(expected, (4, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    ("initializer", "dtype", "low", "high"),
    [
        ("", tf.float32, 0, 0),
        ("-3", tf.float16, -3, -3),
        ("normal", tf.int32, 1, 1),
        ("normal", tf.float32, -6, 6),
        ("random", tf.int32, 0, 1),
        ("uniform", tf.float32, tf.float32.min, tf.float32.max),
    ],
)
def test_initializers(initializer: str, dtype: Any, low: float, high: float) -> None:
    made = synthetic_tensor(tf.TensorSpec((1000,), dtype), initializer)
    assert made.dtype == dtype
    values = made.numpy().astype(float)
    assert low <= values.min() <= values.max() <= high
    if initializer == "uniform":
        assert values.max() > 0.9 * high


@pytest.mark.parametrize(
    ("field", "factor"), [("inv", np.nan), ("oflo", np.inf), ("set_all", np.nan)]
)
def test_traps_name_the_field(field: str, factor: float) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    setattr(config.floating_point_behaviour, field, True)
    config.configure_ipu_system()
    model = compiled()
    model.fit(X, Y, batch_size=4, verbose=0)
    broken = Y * np.float32(factor)
    words = f"floating_point_behaviour.{field} is on, and loss is"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        model.evaluate(X, broken, batch_size=4, verbose=0)


def test_without_traps_losses_may_be_anything() -> None:
    assert np.isnan(compiled().evaluate(X, Y * np.nan, batch_size=4, verbose=0))


def test_predictions_are_trapped_too() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.floating_point_behaviour.inv = True
    config.configure_ipu_system()
    with pytest.raises(tf.errors.InvalidArgumentError, match="output 0 is not a num"):
        compiled().predict(X * np.nan, batch_size=4, verbose=0)


def test_programs_that_are_only_compiled_return_zeros() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = DeviceConnectionType.PRE_COMPILE
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    model = compiled()
    before = model.get_weights()
    assert model.fit(X, Y, batch_size=4, verbose=0).history == {"loss": [0.0]}
    assert not model.predict(X, batch_size=4, verbose=0).any()
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(model.optimizer.iterations.numpy()) == 0


@pytest.mark.parametrize(
    ("older", "keras_one"),
    [
        (
            tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
            keras.optimizers.SGD(0.1, momentum=0.9),
        ),
        (
            tf.compat.v1.train.AdamOptimizer(0.01, epsilon=1e-7),
            keras.optimizers.Adam(0.01),
        ),
    ],
)
def test_optimizers_of_tensorflow_1_are_taken(older: Any, keras_one: Any) -> None:
    trained = []
    for optimizer in (older, keras_one):
        model = compiled(optimizer)
        model.set_gradient_accumulation_options(2)
        model.fit(X, Y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        trained.append(model.get_weights())
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


class _Wrapped(tf.compat.v1.train.Optimizer):
    """A script's own: lets an optimizer of Keras do the updates, and looks at names."""

    def __init__(self, inner: Any) -> None:
        super().__init__(False, "Wrapped")
        self.inner, self.names = inner, set[str]()

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> Any:
        pairs = list(grads_and_vars)
        self.names |= {variable.name for _, variable in pairs}
        return self.inner.apply_gradients(pairs)

    def get_name(self) -> Any:
        return self.inner.get_name()


@pytest.mark.parametrize("pipelined", [False, True])
def test_wrappers_of_tensorflow_1_around_keras_optimizers(
    pipelined: bool, caplog: pytest.LogCaptureFixture
) -> None:
    trained = []
    wrapper = _Wrapped(keras.optimizers.Adam(0.01))
    for optimizer in (wrapper, keras.optimizers.Adam(0.01)):
        model = compiled(optimizer)
        model.set_gradient_accumulation_options(2)
        if pipelined:
            model.set_pipeline_stage_assignment([0, 1])
            schedule = PipelineSchedule.Sequential
            model.set_pipelining_options(2, [0, 0], pipeline_schedule=schedule)
        model.fit(X, Y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        trained.append(model.get_weights())
    for one, other in zip(*trained, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert len(wrapper.names) == 4
    assert all("/dense" in name for name in wrapper.names)
    assert "_Wrapped.compute_gradients is not called" in caplog.text


def test_optimizers_of_tensorflow_1_are_not_loaded() -> None:
    model = compiled(tf.compat.v1.train.GradientDescentOptimizer(0.1))
    saved = keras.optimizers.serialize(model.optimizer)
    with pytest.raises(NotImplementedError, match="compile=False"):
        keras.optimizers.deserialize(saved)


def test_tensorflow_lists_ipus_before_and_after_they_are_configured() -> None:
    physical = [tf.config.PhysicalDevice("/physical_device:IPU:0", "IPU")]
    assert tf.config.list_physical_devices("IPU") == physical
    assert tf.config.list_logical_devices("IPU") == []
    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    config.configure_ipu_system()
    names = [device.name for device in tf.config.list_logical_devices("IPU")]
    assert names == ["/device:IPU:0", "/device:IPU:1"]
    assert len(tf.config.list_physical_devices("IPU")) == 2
    kinds = {device.device_type for device in tf.config.list_logical_devices()}
    assert kinds >= {"CPU", "IPU"}


def test_keras_takes_this_machine_for_one_of_cpus_as_before() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    # `jit_compile="auto"`: XLA is slower for convolutions here, and rounds otherwise.
    assert model.jit_compile is False
