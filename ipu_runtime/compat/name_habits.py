"""Functions that Keras 2 had under names that Keras 3 has not."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import hint, known_by
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.private_names import KERAS_OF_TENSORFLOW

_ROOMS = {
    "backend": "keras.backend.mean",
    "layers": "keras.losses.mse",
    "losses": "keras.losses.mse",
    "metrics": "keras.losses.mse",
    "preprocessing": "keras.losses.mse",
    "preprocessing.image": "keras.losses.mse",
    "preprocessing.sequence": "keras.losses.mse",
}
"""Where `keras` and `tf.keras` know different names, and the habit of using them."""


def accept_name_habits() -> None:
    """Let `keras` and `tf.keras` know each other's names, and those that are gone."""
    for room, habit in _ROOMS.items():
        both = [
            importlib.import_module(f"{root}.{room}")
            for root in ("keras", KERAS_OF_TENSORFLOW)
        ]
        gone = _BACKEND if room == "backend" else {}
        names = {**vars(both[0]), **vars(both[1]), **gone}
        public = {key: value for key, value in names.items() if key[0] != "_"}
        for module in both:
            known_by(module, public, habit)


def learning_phase() -> int:
    """Tell that nothing is trained: layers are told by `training`."""
    hint("backend.learning_phase")
    return 0


def set_learning_phase(value: Any) -> None:
    """Change nothing: layers are told by `training`."""
    hint("backend.learning_phase")


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `x` in training, else `alt`; both may be functions."""
    hint("backend.learning_phase")
    chosen = x if training else alt
    return chosen() if callable(chosen) else chosen


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Any:
    """Print a tensor when it is computed, and return it."""
    tf.print(message, x, summarize=summarize)
    return tf.identity(x)


def function(inputs: Sequence[Any], outputs: Any, **_: Any) -> Any:
    """Return a function from arrays to what a model makes of them."""
    hint("backend.function")
    model = keras.Function(list(inputs), outputs)
    return lambda arrays: keras.tree.map_structure(
        keras.ops.convert_to_numpy,
        model([tf.convert_to_tensor(array) for array in arrays]),
    )


_BACKEND = {
    item.__name__: item
    for item in (
        learning_phase,
        set_learning_phase,
        in_train_phase,
        print_tensor,
        function,
    )
}
