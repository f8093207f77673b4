"""Names under which the packages carry modules that are not public.

Nothing is imported here: they are compared with the names of modules that load.
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


def loaded_older_models() -> list[tuple[str, Any]]:
    """Return the classes of models of Keras 2 that are loaded, and their packages."""
    return [
        (package, sys.modules[module].Model)
        for module, package in _OLDER_MODELS.items()
        if hasattr(sys.modules.get(module), "Model")
    ]
