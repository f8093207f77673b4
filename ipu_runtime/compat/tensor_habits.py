"""Symbolic tensors of Keras 2, which functions of TensorFlow took."""

from __future__ import annotations

import functools
from types import FrameType
from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import asked_by_script, hint
from ipu_runtime.compat.variable_habits import DTypeName
from ipu_runtime.frameworks.habit_points import (
    dispatch,
    get_canonical_name_for_symbol,
    history_of,
    uniquify,
)
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, calling_frame, instead
from ipu_runtime.frameworks.private_names import LEGACY_BACKEND
from ipu_runtime.frameworks.types import Tensor

_REFERENCE, _OWN_NAME = "_ipu_reference", "_ipu_own_name"
"""Attributes of a symbolic tensor: what stands for it as a key, and Keras' name."""


class StaticShape(tuple[int | None, ...]):
    """A tuple, as in Keras 3, that can be asked what a `tf.TensorShape` can."""

    __slots__ = ()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        if asked_by_script():
            hint("tensor.shape.as_list")
        return getattr(tf.TensorShape(self), attribute)


@keras.saving.register_keras_serializable("ipu_runtime")
class TensorFlowFunction(keras.Operation):
    """A function of TensorFlow in a model, where Keras 2 put a layer of its own."""

    def __init__(self, function: str, name: str | None = None) -> None:
        super().__init__(name=name or uniquify(f"tf.{function}"))
        self.function = function
        """Its name below `tf`."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return functools.reduce(getattr, self.function.split("."), tf)(*args, **kwargs)


class _KerasTensors(dispatch.GlobalOpDispatcher):
    """Takes over when a function of TensorFlow does not know what it is given."""

    def handle(self, op: Any, args: Any, kwargs: Any) -> Any:
        """Put the function into the model that the Keras tensors belong to."""
        # The outermost function counts: the ones inside may need real tensors.
        if not _symbolic(args, kwargs) or _inside_another(calling_frame(1)):
            return self.NOT_SUPPORTED
        name = get_canonical_name_for_symbol(op)
        if name is None:
            return self.NOT_SUPPORTED
        hint("TensorFlow function of a Keras tensor")
        return TensorFlowFunction(name)(*args, **kwargs)


def _symbolic(args: Any, kwargs: Any) -> bool:
    given = tf.nest.flatten((args, kwargs))
    return any(isinstance(item, keras.KerasTensor) for item in given)


def _inside_another(frame: FrameType) -> bool:
    """Tell whether a function of TensorFlow with Keras tensors calls this one."""
    handlers = []
    caller: FrameType | None = frame
    while caller is not None:
        if caller.f_code.co_name == "op_dispatch_handler":
            handlers.append(caller)
        caller = caller.f_back
    return any(
        _symbolic(handler.f_locals["args"], handler.f_locals["kwargs"])
        for handler in handlers[1:]
    )


def accept_tensor_habits() -> None:
    """Let Keras tensors be handed to TensorFlow, and asked what its tensors know."""
    _KerasTensors().register()
    tensor = keras.KerasTensor
    own_shape, own_dtype = tensor.shape, tensor.dtype

    def shape(self: Any) -> Any:
        extents = own_shape.fget(self)
        asked = asked_by_script(or_by=LEGACY_BACKEND)
        return StaticShape(extents) if asked else extents

    def dtype(self: Any) -> Any:
        return DTypeName(own_dtype.fget(self))

    def get_shape(self: Any) -> Any:
        hint("tensor.get_shape")
        return StaticShape(own_shape.fget(self))

    for name, value in (
        ("shape", property(shape, own_shape.fset)),
        ("dtype", property(dtype, own_dtype.fset)),
        ("get_shape", get_shape),
        ("ref", _ref),
        ("name", property(_name, _set_name)),
    ):
        Patch(tensor, name, instead(value)).install()


class _Reference:
    """Stands for a symbolic tensor as a key of dictionaries."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def deref(self) -> Any:
        """Return the tensor."""
        return self._tensor


def _ref(self: Any) -> _Reference:
    hint("tensor.ref")
    reference: _Reference = vars(self).setdefault(_REFERENCE, _Reference(self))
    return reference


def _name(self: Any) -> str:
    """Return the name that Keras gave, for scripts with that of the layer."""
    own = str(vars(self)[_OWN_NAME])
    history = history_of(self)
    if history is None or not asked_by_script():
        return own
    hint("tensor.name")
    operation = history.operation
    inputs = isinstance(operation, keras.layers.InputLayer)
    return str(operation.name) if inputs else f"{operation.name}/{own}:0"


def _set_name(self: Any, name: str) -> None:
    vars(self)[_OWN_NAME] = name
