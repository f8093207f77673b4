"""Weights and models saved where and how Keras 2 saved them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

pytestmark = pytest.mark.slow

X = np.random.RandomState(0).rand(8, 3).astype(np.float32)


def _model() -> Any:
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", metrics=["mae"])
    return model


def _on_ipu() -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        return _model()


def _same(one: Any, other: Any) -> None:
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [_model, _on_ipu])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("weights", {}),
        ("new/ckpt-0001", {"save_format": "tf"}),
        ("weights.h5", {}),
        ("weights.hdf5", {"save_format": "h5"}),
        ("own.weights.h5", {}),
    ],
)
def test_weights_come_back_from_every_format(
    tmp_path: Path, make: Any, name: str, options: Any
) -> None:
    model, path = make(), tmp_path / name
    model.fit(X, X[:, :1], batch_size=4, verbose=0)
    model.save_weights(path, **options)
    other = make()
    status = other.load_weights(str(path))
    if status is not None:
        status.expect_partial()
    _same(other, model)


def test_the_latest_checkpoint_is_the_last_that_was_written(tmp_path: Path) -> None:
    model = _model()
    for name in ("a", "b"):
        model.save_weights(str(tmp_path / name))
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "b")


@pytest.mark.parametrize("name", ["directory", "file.h5", "file.keras"])
def test_whole_models_come_back(tmp_path: Path, name: str) -> None:
    model, path = _model(), str(tmp_path / name)
    model.fit(X, X[:, :1], batch_size=4, verbose=0)
    model.save(path)
    loaded = keras.models.load_model(path)
    _same(loaded, model)
    for trained in (model, loaded):
        trained.fit(X, X[:, :1], batch_size=4, shuffle=False, verbose=0)
    _same(loaded, model)


def test_a_saved_directory_can_be_served(tmp_path: Path) -> None:
    model = _on_ipu()
    model.save(str(tmp_path / "served"), save_format="tf")
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(X), model(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "written"),
    [
        ("w-{epoch:02d}", {"save_weights_only": True}, "w-{:02d}.index"),
        ("w-{epoch}.h5", {"save_weights_only": True}, "w-{}.h5"),
        ("m-{epoch}", {}, "m-{}/saved_model.pb"),
        ("m-{epoch}.h5", {}, "m-{}.h5"),
    ],
)
def test_checkpoints_are_written_under_their_older_names(
    tmp_path: Path, name: str, options: Any, written: str
) -> None:
    callback = keras.callbacks.ModelCheckpoint(str(tmp_path / name), **options)
    _on_ipu().fit(X, X[:, :1], 4, epochs=2, verbose=0, callbacks=[callback])
    for epoch in (1, 2):
        assert (tmp_path / written.format(epoch)).is_file()


def test_a_period_of_epochs_is_kept(tmp_path: Path) -> None:
    callback = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "{epoch}.weights.h5"), save_weights_only=True, period=2
    )
    _on_ipu().fit(X, X[:, :1], 4, epochs=5, verbose=0, callbacks=[callback])
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["2.weights.h5", "4.weights.h5"]
