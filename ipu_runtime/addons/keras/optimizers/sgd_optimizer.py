"""Gradient descent with a typed momentum: `SGDIpuOptimizer`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.addons.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import Variable


@keras.saving.register_keras_serializable("ipu_tensorflow_addons")
class SGDIpuOptimizer(IpuOptimizerBase, keras.optimizers.SGD):
    """SGD whose momentum may have another type than the variables."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name,
            learning_rate=learning_rate,
            momentum=float(momentum),
            nesterov=nesterov,
            **kwargs,
        )
        self.momentum_accum_dtype = momentum_accum_dtype
        self.slot_names = ("momentum",) if momentum else ()

    def get_slot_dtype(self, var: Any, slot_name: str) -> Any:
        """Return the type of the momentum; None means the variable's own."""
        del var, slot_name
        return self.momentum_accum_dtype

    def update_step(
        self, gradient: Any, variable: Variable, learning_rate: Any
    ) -> None:
        """Update one variable."""
        (gradient,) = self.in_compute_type(gradient)
        step = -learning_rate * gradient
        if self.momentum:
            slot = self.get_slot(variable, "momentum")
            (velocity,) = self.in_compute_type(slot)
            velocity = self.momentum * velocity + step
            self.assign(slot, tf.cast(velocity, slot.dtype))
            step = self.momentum * velocity + step if self.nesterov else velocity
        self.assign_add(variable, tf.cast(step, variable.dtype))
