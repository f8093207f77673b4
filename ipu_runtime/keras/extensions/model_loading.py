"""What loading a subclassed model refuses, because options would be lost."""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import Functional
from ipu_runtime.frameworks.keras_training import is_keras_default
from ipu_runtime.frameworks.patching import Patch

_KERAS_OWN_KEY = "trainable"
"""Part of every configuration that Keras itself has started."""


def _refusing(original: Any) -> Any:
    load = original.__func__

    def from_config(cls: type, config: Any, custom_objects: Any = None) -> Any:
        if issubclass(cls, (keras.Sequential, Functional)) or "layers" in config:
            return load(cls, config, custom_objects)
        if _overrides_get_config(cls) and _KERAS_OWN_KEY not in config:
            raise RuntimeError(
                f"The configuration of {cls.__name__} has no IPU options: its "
                "`get_config` must start from `super().get_config()`."
            )
        try:
            return load(cls, config, custom_objects)
        except TypeError as error:
            raise NotImplementedError(
                f"{cls.__name__} cannot be made from its saved configuration: a "
                "model whose constructor needs arguments must define `from_config`, or "
                f"return them from `get_config`. ({str(error).splitlines()[0]})"
            ) from error

    return classmethod(from_config)


def _overrides_get_config(cls: type) -> bool:
    written: Any = getattr(cls, "__original_class__", cls)
    own = written.get_config
    return not is_keras_default(own) and own is not keras.Model.get_config


subclass_loading = Patch(keras.Model, "from_config", _refusing)
