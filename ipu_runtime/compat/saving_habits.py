"""Formats and arguments of saving that Keras 2 had."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import tensorflow as tf

from ipu_runtime.compat.habits import hint, replacing
from ipu_runtime.frameworks.habit_points import (
    checkpoint_management,
    checkpoint_patch,
    legacy_h5_format,
    losses,
    saving_api,
)
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import around
from ipu_runtime.frameworks.types import KerasModel

_H5 = (".h5", ".hdf5")
_SHORT_LOSSES = {
    "mae": losses.mean_absolute_error,
    "mape": losses.mean_absolute_percentage_error,
    "mse": losses.mean_squared_error,
    "msle": losses.mean_squared_logarithmic_error,
}
_KERAS_MODEL = "model.keras"
"""File of a saved directory from which a Keras model is loaded again."""


def accept_saving_habits() -> None:
    """Let models be saved where and how Keras 2 saved them."""
    _save_weights()
    _save_models()
    _save_checkpoints()


def _save_weights() -> None:
    @replacing(keras.Model, "save_weights")
    def save(
        original: Any,
        self: Any,
        filepath: Any,
        overwrite: bool = True,
        save_format: str | None = None,
        options: Any = None,
        **kwargs: Any,
    ) -> Any:
        path = os.fspath(filepath)
        if save_format is not None:
            hint("save_weights(save_format=)")
        if path.endswith((".weights.h5", ".weights.json")) or kwargs:
            return original(self, path, overwrite, **kwargs)
        hint("save_weights(path)")
        if not overwrite and _checkpoint_exists(path):
            raise FileExistsError(f"{path} exists, and overwrite is False.")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(_H5) or save_format in ("h5", "hdf5", "keras"):
            with h5py.File(path, "w") as file:
                return legacy_h5_format.save_weights_to_hdf5_group(file, self)
        tf.train.Checkpoint(root=self).write(path, options)
        directory, name = os.path.split(os.path.abspath(path))
        # So that `tf.train.latest_checkpoint` finds it.
        return checkpoint_management.update_checkpoint_state_internal(directory, name)

    @replacing(keras.Model, "load_weights")
    def load(original: Any, self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        path = os.fspath(filepath)
        if not tf.io.gfile.exists(f"{path}.index"):
            return original(self, path, *args, **kwargs)
        return tf.train.Checkpoint(root=self).read(path)


def _checkpoint_exists(path: str) -> bool:
    return os.path.exists(path) or os.path.exists(f"{path}.index")


def _save_models() -> None:
    @replacing(saving_api, "save_model")
    def save(
        original: Any, model: KerasModel, filepath: Any, *args: Any, **kwargs: Any
    ) -> Any:
        path = os.fspath(filepath)
        if path.endswith((".keras", *_H5)) or kwargs.get("zipped") is False:
            kwargs.pop("save_format", None)
            return original(model, path, *args, **kwargs)
        hint("model.save(directory)")
        # What loads a SavedModel finds one, and Keras finds its own file inside.
        model.export(path, verbose=False)
        return original(model, os.path.join(path, _KERAS_MODEL))

    @replacing(saving_api, "load_model")
    def load(
        original: Any,
        filepath: Any,
        custom_objects: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        path = os.fspath(filepath)
        inside = os.path.join(path, _KERAS_MODEL)
        if os.path.exists(inside):
            return original(inside, custom_objects, *args, **kwargs)
        if not path.endswith(_H5):
            return original(path, custom_objects, *args, **kwargs)
        # Keras 3 writes the short names of losses there, but cannot read them.
        known = {**_SHORT_LOSSES, **(custom_objects or {})}
        model = original(path, known, *args, **kwargs)
        if getattr(model, "optimizer", None) is not None:
            _restore_optimizer(model, path)
        return model


def _restore_optimizer(model: KerasModel, path: str) -> None:
    """Build the optimizer again: Keras 3 has built it for no weights at all."""
    model.optimizer.built = False
    model.optimizer.build(model.trainable_variables)
    with h5py.File(path) as file:
        if "optimizer_weights" in file:
            saved = legacy_h5_format.load_optimizer_weights_from_hdf5_group(file)
            model.optimizer.set_weights(saved)


def _save_checkpoints() -> None:
    @replacing(keras.callbacks.ModelCheckpoint, "__init__")
    def construct(
        original: Any, self: Any, filepath: Any, *args: Any, **kwargs: Any
    ) -> None:
        period = kwargs.pop("period", 1)
        if period != 1:
            hint("ModelCheckpoint(period=)")
        path = os.fspath(filepath)
        try:
            original(self, path, *args, **kwargs)
        except ValueError:
            hint("ModelCheckpoint(path)")
            # Keras looks at the ending only here; the model knows what it means.
            original(self, f"{path}.weights.h5", *args, **kwargs)
            self.filepath = path
        self.period = period

    def save(original: Any, self: Any, epoch: Any, batch: Any, logs: Any) -> None:
        if batch is not None or (epoch + 1) % self.period == 0:
            original(self, epoch, batch, logs)

    checkpoint_patch(around(save)).install()
