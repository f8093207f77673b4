"""Optimizers that `compile` takes otherwise: older ones, and those that scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.loss_scaling import loss_scaling_of
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_optimizers import trained_variables
from ipu_runtime.frameworks.patch_points import (
    loss_scaling_patch,
    optimizer_patch,
)
from ipu_runtime.frameworks.patching import around, instead
from ipu_runtime.frameworks.private_names import OLDER_OPTIMIZER_HOOKS
from ipu_runtime.frameworks.tensorflow_variables import create_slots, name_variable
from ipu_runtime.frameworks.types import Optimizer


@keras.saving.register_keras_serializable("ipu_runtime")
class OlderOptimizer(keras.optimizers.Optimizer):
    """Lets a `tf.compat.v1.train.Optimizer` do the updates of a Keras model."""

    built: bool

    def __init__(self, opt: Any) -> None:
        # Not `get_name`: a script's wrapper asks what it wraps, which may lack it.
        super().__init__(learning_rate=0.0, name=type(opt).__name__)
        self.inner = opt
        _warn_of_own_gradients(type(opt))

    def build(self, variables: Any) -> None:
        """Make the variables of the inner optimizer before a program is traced."""
        super().build(variables)
        create_slots(self.inner, _values(variables))

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Update the variables with the inner optimizer."""
        if not self.built:
            with tf.init_scope():
                self.build(trainable_variables)
        values = _values(trainable_variables or trained_variables(self))
        self.inner.apply_gradients(list(zip(grads, values, strict=True)))
        self.iterations.assign_add(1)

    def get_config(self) -> Any:
        """Return the inner optimizer's class: its settings are not saved."""
        return {"opt": type(self.inner).__name__}

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Raise: optimizers of TensorFlow 1 do not save their settings."""
        raise NotImplementedError(
            f"The model was compiled with tf.compat.v1.train.{config['opt']}, whose "
            "settings are not saved: load it with compile=False, and compile it again."
        )


def _values(variables: Sequence[Any]) -> list[Any]:
    """Return TensorFlow's variables, with layers in their names as Keras 2 had them."""
    values = []
    for variable in variables:
        value = getattr(variable, "value", variable)
        if value is not variable:
            name_variable(value, f"{variable.path}:0")
        values.append(value)
    return values


def _warn_of_own_gradients(kind: type[Any]) -> None:
    room = kind.compute_gradients.__module__.partition(".")[0]
    if room not in ("tensorflow", "ipu_runtime"):
        tf.get_logger().warning(
            "%s.compute_gradients is not called: gradients of Keras models come from "
            "a tape, and go to its apply_gradients.",
            kind.__name__,
        )


def _get(original: Any, identifier: Any) -> Optimizer:
    if isinstance(identifier, tf.compat.v1.train.Optimizer):
        return OlderOptimizer(identifier)
    refuse_older_hooks(identifier)
    return original(identifier)


def refuse_older_hooks(optimizer: Optimizer) -> None:
    """Raise if an optimizer, or one inside it, hopes to be called as by Keras 2."""
    while isinstance(optimizer, keras.optimizers.Optimizer):
        for name in OLDER_OPTIMIZER_HOOKS:
            # ALSOptimizer has `get_gradients` itself, for scripts that call it.
            if any(name in vars(kind) for kind in _foreign_classes(optimizer)):
                raise NotImplementedError(
                    f"The optimizer {type(optimizer).__name__} overrides `{name}`, "
                    "which only Keras 2 calls: it would train without what is written "
                    "there. Override `update_step(gradient, variable, learning_rate)` "
                    "or `apply_gradients` instead."
                )
        optimizer = getattr(optimizer, "inner", None) or getattr(
            optimizer, "inner_optimizer", None
        )


def _foreign_classes(optimizer: Optimizer) -> list[type]:
    """Return an optimizer's classes that are not of the emulated API."""
    return [
        kind
        for kind in type(optimizer).__mro__
        if not kind.__module__.startswith("ipu_runtime.")
    ]


class _Kind(type):
    def __instancecheck__(cls, optimizer: Optimizer) -> bool:
        scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        return scales or loss_scaling_of(optimizer) is not None

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return keras.optimizers.LossScaleOptimizer(*args, **kwargs)


class _ScalingOptimizer(metaclass=_Kind):
    """Stands for every optimizer that scales losses, when `compile` asks."""


OPTIMIZER_PATCHES = (
    optimizer_patch(around(_get)),
    # `compile` would scale the losses of a mixed_float16 model a second time.
    loss_scaling_patch(instead(_ScalingOptimizer)),
)
"""Let `compile` take optimizers of TensorFlow 1, and those that scale losses."""
