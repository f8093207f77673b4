"""What variables of Keras 2 were: variables of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import asked_by_script, hint, replacing
from ipu_runtime.frameworks.habit_points import KerasVariable
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, instead
from ipu_runtime.frameworks.types import Tensor


class DTypeName(str):
    """A type's name, as in Keras 3, that also knows what TensorFlow's type knows."""

    __slots__ = ()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        value = getattr(tf.as_dtype(str(self)), attribute)
        if asked_by_script():
            hint("variable.dtype.size")
        return value


def accept_variable_habits() -> None:
    """Let variables of Keras be used where scripts expect those of TensorFlow."""
    own_dtype, own_name = KerasVariable.dtype.fget, KerasVariable.name.fget

    def name(self: Any) -> str:
        if not asked_by_script():
            return str(own_name(self))
        hint("variable.name")
        return f"{self.path}:0"

    dtype = property(lambda self: DTypeName(own_dtype(self)))
    Patch(KerasVariable, "dtype", instead(dtype)).install()
    Patch(KerasVariable, "name", instead(property(name))).install()
    Patch(keras.Variable, "read_value", instead(_read_value)).install()

    @replacing(tf.GradientTape, "watch")
    def watch(original: Any, self: Any, tensor: Tensor) -> None:
        original(self, tf.nest.map_structure(_watched, tensor))


def _read_value(self: Any) -> Any:
    hint("variable.read_value")
    return tf.convert_to_tensor(self)


def _watched(tensor: Tensor) -> Any:
    if not isinstance(tensor, keras.Variable):
        return tensor
    hint("tape.watch(Keras variable)")
    return tensor.value
