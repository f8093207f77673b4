"""Names of Keras and TensorFlow that are not public, where they are needed as texts.

Nothing is imported here: who compares the names of modules that load, or lists the
habits of older scripts, must do without Keras.
"""

from __future__ import annotations

import sys
from typing import Any

KERAS_OF_TENSORFLOW = "keras._tf_keras.keras"
"""What `tf.keras` is: a second tree of Keras' public modules."""
LEGACY_BACKEND = "keras.src.legacy.backend"
"""Keras 3's copy of the backend functions of Keras 2, which reads shapes as it did."""
TENSORFLOW_ONE = ("tensorflow.compat.v1", "tensorflow._api.v2.compat.v1")
"""What `tf.compat.v1` is, imported in either way."""
DISTRIBUTION_CONTEXT = "tensorflow.python.distribute.distribution_strategy_context"
"""The module that TensorFlow 2.4 had for what is in the next one today."""
DISTRIBUTION = "tensorflow.python.distribute.distribute_lib"
KERAS_IN_TENSORFLOW = "tensorflow.python.keras"
"""TensorFlow's own Keras 2, of which TensorFlow 2.21 still has a part."""

_OLDER_MODELS = {
    "tf_keras": "tf_keras",
    f"{KERAS_IN_TENSORFLOW}.engine.training": KERAS_IN_TENSORFLOW,
    f"{KERAS_IN_TENSORFLOW}.engine.training_v1": KERAS_IN_TENSORFLOW,
}
"""Modules of Keras 2 that have a class of models, and the packages they are of."""

LAYER_NAME = "_name"
"""Attribute of layers that subclasses of Keras 2 set to rename themselves."""
OLDER_OPTIMIZER_HOOKS = (
    "_resource_apply_dense",
    "_resource_apply_sparse",
    "get_gradients",
    "_aggregate_gradients",
)
"""Methods that Keras 2 called on its optimizers, and Keras 3 never calls."""
COLOCATION = "_class"
"""Attribute of an operation that names those it is placed beside."""
NOT_INLINED = "_noinline"
"""Attribute of a function that graphs call rather than inline."""


def loaded_older_models() -> list[tuple[str, Any]]:
    """Return the classes of models of Keras 2 that are loaded, and their packages."""
    return [
        (package, sys.modules[module].Model)
        for module, package in _OLDER_MODELS.items()
        if hasattr(sys.modules.get(module), "Model")
    ]
