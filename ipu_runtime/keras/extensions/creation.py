"""Give models that are created under a strategy their extension."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import Functional, makes_functional
from ipu_runtime.frameworks.keras_training import is_keras_default, mark_keras_default
from ipu_runtime.frameworks.patch_points import cloning_patches, compiling_patch
from ipu_runtime.frameworks.patching import Patch, applied, around
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.extensions_base import KerasExtensionBase
from ipu_runtime.keras.extensions.functional_extensions import FunctionalExtension
from ipu_runtime.keras.extensions.model_extensions import ModelExtension
from ipu_runtime.keras.extensions.saved_options import (
    CONFIG_KEYS,
    restore_options,
    saved_options,
)
from ipu_runtime.keras.extensions.sequential_extensions import SequentialExtension
from ipu_runtime.keras.optimizers.older_optimizers import OPTIMIZER_PATCHES
from ipu_runtime.strategies.strategy_stack import current_strategy, extensions_wanted


def extending_models() -> AbstractContextManager[None]:
    """Extend every Keras model that is created inside, in this thread."""
    return applied(_PATCHES)


_KERAS_OWN_KEY = "trainable"
"""Part of every configuration that Keras itself has started."""

_extended_classes: dict[tuple[type, type], type] = {}


def extended_class(original: type, extension: type) -> type:
    """Return the class of the same name that is both the original and extended."""
    key = (original, extension)
    if key not in _extended_classes:
        _extended_classes[key] = _make_extended_class(original, extension)
    return _extended_classes[key]


def _make_extended_class(original: type, extension: type) -> type:
    def construct(_: Any, model: KerasModel, *args: Any, **kwargs: Any) -> None:
        saved = {key: kwargs.pop(key) for key in CONFIG_KEYS if key in kwargs}
        # The one of this moment: a scope may have replaced that of `keras.Model`.
        original.__init__(model, *args, **kwargs)  # type: ignore[misc]
        model.restore_ipu_options(saved)

    def get_config(self: Any) -> Any:
        return extension.get_config(self)  # type: ignore[attr-defined]

    # Keras writes constructor arguments down itself where nobody overrides this.
    if is_keras_default(original.get_config):  # type: ignore[attr-defined]
        mark_keras_default(get_config)
    return type(
        original.__name__,
        (extension, original),
        {
            "__init__": around(construct)(original.__init__),  # type: ignore[misc]
            "get_config": get_config,
            "__module__": original.__module__,
            "__qualname__": original.__qualname__,
            "__doc__": original.__doc__,
            "__original_class__": original,
        },
    )


def _extension_for(cls: type, args: Any, kwargs: Any) -> type[KerasExtensionBase]:
    if issubclass(cls, keras.Sequential):
        return SequentialExtension
    if issubclass(cls, Functional) or makes_functional(args, kwargs):
        return FunctionalExtension
    return ModelExtension


def _extending(original: Any) -> Any:
    create = original.__func__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        functional = cls is keras.Model and makes_functional(args, kwargs)
        if functional or not extensions_wanted():
            # A Functional model comes back here under its own class.
            return create(cls, *args, **kwargs)
        extension = _extension_for(cls, args, kwargs)
        present = next((c for c in cls.__mro__ if c in _EXTENSIONS), None)
        if present not in (None, extension):
            raise RuntimeError(
                f"{cls.__name__} is already extended by {present.__name__}, it cannot "
                f"be extended by {extension.__name__}."
            )
        model = create(cls if present else extended_class(cls, extension))
        state_of(model).strategy = current_strategy()
        return model

    return staticmethod(new)


def _restoring(original: Any) -> Any:
    load = original.__func__

    def from_config(cls: type, config: Any, custom_objects: Any = None) -> Any:
        model = load(cls, config, custom_objects)
        if isinstance(model, SequentialExtension):
            saved = {key: config[key] for key in CONFIG_KEYS if key in config}
            restore_options(model, saved)
        return model

    return classmethod(from_config)


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


def _compile(original: Any, *args: Any, **kwargs: Any) -> Any:
    notice("model.compile")
    return original(*args, **kwargs)


def _clone(original: Any, model: KerasModel, *args: Any, **kwargs: Any) -> KerasModel:
    copy = original(model, *args, **kwargs)
    if isinstance(model, KerasExtensionBase) and isinstance(copy, KerasExtensionBase):
        restore_options(copy, saved_options(model))
    return copy


_EXTENSIONS = (FunctionalExtension, SequentialExtension, ModelExtension)
_PATCHES = (
    Patch(keras.Model, "__new__", _extending),
    Patch(keras.Sequential, "from_config", _restoring),
    Patch(keras.Model, "from_config", _refusing),
    *OPTIMIZER_PATCHES,
    compiling_patch(around(_compile)),
    *cloning_patches(around(_clone)),
)
