"""Models of Keras 2 inside of a strategy: they would train on the host, so they say so.

TensorFlow still carries a Keras of its own that scripts of SDK 1.4 import, and the
package `tf_keras` is another; neither knows the emulated device.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from ipu_runtime.frameworks.patching import Patch, applied, around
from ipu_runtime.frameworks.private_names import loaded_older_models
from ipu_runtime.frameworks.types import KerasModel


def refusing_older_keras() -> AbstractContextManager[None]:
    """Refuse to run models of Keras 2 that the script has loaded."""
    return applied(
        Patch(model, method, around(functools.partial(_refuse, package)))
        for package, model in loaded_older_models()
        for method in ("fit", "evaluate", "predict")
    )


def _refuse(package: str, _: Any, model: KerasModel, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f"{type(model).__name__} is a model of {package}, which is Keras 2: it would "
        "train on the host, not on the IPU. Import Keras as "
        "`from tensorflow import keras`, without TF_USE_LEGACY_KERAS."
    )
