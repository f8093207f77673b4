"""Models of Keras 2 inside of a strategy: they would train on the host, so they say so.

TensorFlow still carries a Keras of its own that scripts of SDK 1.4 import, and the
package `tf_keras` is another; neither knows the emulated device.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ipu_runtime.frameworks.patching import Patch

_MODELS = {
    "tf_keras": "Model",
    "tensorflow.python.keras.engine.training": "Model",
    "tensorflow.python.keras.engine.training_v1": "Model",
}
"""Modules of Keras 2 that have a class of models, if they are loaded."""
_METHODS = ("fit", "evaluate", "predict")


@contextmanager
def refusing_older_keras() -> Iterator[None]:
    """Refuse to run models of Keras 2 that the script has loaded."""
    with ExitStack() as patches:
        for name, kind in _MODELS.items():
            owner = getattr(sys.modules.get(name), kind, None)
            for method in _METHODS if owner is not None else ():
                patch = Patch(owner, method, functools.partial(_refusing, name))
                patches.enter_context(patch.applied())
        yield


def _refusing(module: str, original: Any) -> Any:
    @functools.wraps(original)
    def refuse(model: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{type(model).__name__} is a model of {module.partition('.engine')[0]}, "
            "which is Keras 2: it would train on the host, not on the IPU. Import "
            "Keras as `from tensorflow import keras`, without TF_USE_LEGACY_KERAS."
        )

    return refuse
