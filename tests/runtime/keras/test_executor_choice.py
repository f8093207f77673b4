"""Which executor a program gets, why, and that training does not depend on it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bench.untuned_models import UNTUNED
from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.build.programs import executor_choice
from ipu_runtime.ipu_strategy import IPUStrategy
from tests.runtime.run_recorder import run_preset
from workbench.runs.run_store import open_run

pytestmark = pytest.mark.slow

_BATCH = 4
_BATCHES = 3
_random = np.random.default_rng(5)
X = _random.normal(size=(_BATCH * _BATCHES, 6)).astype(np.float32)
Y = _random.normal(size=(_BATCH * _BATCHES, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def _one_ipu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few batches be worth compiling for."""
    monkeypatch.setattr(executor_choice, "_WORTH_COMPILING_BATCHES", 1)
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()


def trained(model: Any, x: Any = X, y: Any = Y, **compiling: Any) -> Any:
    """Train for an epoch, with an optimizer that keeps nothing from step to step."""
    loss = compiling.pop("loss", "mse")
    model.compile(keras.optimizers.SGD(0.1), loss, **compiling)
    return model.fit(x, y, batch_size=_BATCH, shuffle=False, verbose=0)


def chosen(*layers: Any, **compiling: Any) -> str:
    """Return the executor of a small model, dense but for these layers."""
    with IPUStrategy().scope():
        dense = keras.layers.Dense(2)
        model = keras.Sequential([keras.Input((6,)), *layers, dense])
        trained(model, steps_per_execution=_BATCHES, **compiling)
    return str(model.ipu_profile().executor)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough)
        if name in ("GRU", "LSTM", "autoencoder", "transformer")
        else name
        for name in UNTUNED
    ],
)
def test_losses_and_weights_are_those_of_stock_keras(name: str) -> None:
    untuned = UNTUNED[name]
    loss = "sparse_categorical_crossentropy" if untuned.classes else "mse"
    keras.utils.set_random_seed(7)
    stock = untuned.build()
    samples = -(-_BATCH * _BATCHES // untuned.batch_size)
    x, y = (part[: _BATCH * _BATCHES] for part in untuned.data(stock, samples))
    with IPUStrategy().scope():
        keras.utils.set_random_seed(7)
        model = untuned.build()
        ours = trained(model, x, y, loss=loss, steps_per_execution=_BATCHES)
    # Without a graph of its own, which would take seconds to make.
    expected = trained(stock, x, y, loss=loss, run_eagerly=True)

    assert ours.history["loss"] == pytest.approx(expected.history["loss"], rel=1e-5)
    for mine, other in zip(model.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
    convolves = name in ("residual CNN", "U-Net")
    executor = model.ipu_profile().executor
    assert executor.startswith("graph executor: conv" if convolves else "XLA: ")


def test_few_batches_are_not_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_choice, "_WORTH_COMPILING_BATCHES", _BATCHES + 1)
    assert chosen() == "graph executor: too few batches to compile for"


def test_draws_stay_those_of_the_graph() -> None:
    assert chosen(keras.layers.Dropout(0.5)) == "graph executor: random numbers"


def test_what_xla_would_leave_out_stays() -> None:
    def checked(x: Any) -> Any:
        tf.debugging.assert_less(x, 1e6)
        return tf.debugging.check_numerics(x, "not a number")

    assert chosen(keras.layers.Lambda(checked)) == "graph executor: checks"


def test_python_code_is_named() -> None:
    def in_python(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(np.sin, [x], x.dtype), x.shape)

    found = chosen(keras.layers.Lambda(in_python, output_shape=(6,)))
    assert found.startswith("graph executor: PyFunc")


def test_large_products_are_left_to_the_graph() -> None:
    found = chosen(keras.layers.Dense(512), keras.layers.Dense(512))
    assert found.startswith("XLA")
    batched = keras.layers.Lambda(lambda x: tf.tile(x[:, None], (1, 400, 43)))
    layers = [batched, keras.layers.Dense(512), keras.layers.Dense(512)]
    found = chosen(*layers, keras.layers.GlobalAveragePooling1D())
    assert found.startswith("graph executor")
    assert found.endswith("above 100")


def test_a_program_that_xla_refuses_runs_in_the_graph() -> None:
    def loss(y: Any, y_pred: Any) -> Any:
        grown = tf.image.resize(y_pred[:, None, :, None], (1, 4), "bicubic")
        return tf.reduce_mean(tf.square(grown[:, 0, ::2, 0] - y), axis=-1)

    assert chosen(loss=loss) == "graph executor: XLA cannot compile it"


def test_a_run_keeps_the_choice() -> None:
    small = ("data.train_samples=640", "data.test_samples=64", "train.epochs=1")
    ran = run_preset("mnist-ipu", small)
    kept = open_run(ran.run_id).summary["executor"]
    assert kept == "graph executor: convolutions, pooling, random numbers"
