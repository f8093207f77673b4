"""Adam with typed states: `AdamIpuOptimizer`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.addons.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import Optimizer, Variable


@keras.saving.register_keras_serializable("ipu_tensorflow_addons")
class AdamIpuOptimizer(IpuOptimizerBase, keras.optimizers.Adam):
    """Adam; `debiasing` says whether moments that start at zero are corrected."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        m_dtype: Any = None,
        v_dtype: Any = None,
        vhat_dtype: Any = None,
        debiasing: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name,
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            **kwargs,
        )
        self.m_dtype = m_dtype
        self.v_dtype = v_dtype
        self.vhat_dtype = vhat_dtype
        self.debiasing = debiasing
        self.slot_names = ("m", "v", "vhat") if amsgrad else ("m", "v")

    def update_step(
        self, gradient: Any, variable: Variable, learning_rate: Any
    ) -> None:
        """Update one variable."""
        first, second = update_moments(self, gradient, variable)
        if self.amsgrad:
            highest = self.get_slot(variable, "vhat")
            second = tf.maximum(*self.in_compute_type(highest), second)
            self.assign(highest, tf.cast(second, highest.dtype))
        step = learning_rate * first / (tf.sqrt(second) + self.epsilon)
        self.assign_sub(variable, tf.cast(step, variable.dtype))

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {**super().get_config(), "debiasing": self.debiasing}


def update_moments(
    optimizer: Optimizer, gradient: Any, variable: Variable
) -> tuple[Any, Any]:
    """Update the moments `m` and `v` of a variable; return what steps are made of."""
    m, v = optimizer.get_slot(variable, "m"), optimizer.get_slot(variable, "v")
    grad, first, second = optimizer.in_compute_type(gradient, m, v)
    first = optimizer.beta_1 * first + (1 - optimizer.beta_1) * grad
    second = optimizer.beta_2 * second + (1 - optimizer.beta_2) * tf.square(grad)
    optimizer.assign(m, tf.cast(first, m.dtype))
    optimizer.assign(v, tf.cast(second, v.dtype))
    if not optimizer.debiasing:
        return first, second
    (step,) = optimizer.in_compute_type(optimizer.iterations + 1)
    return (
        first / (1 - tf.pow(tf.cast(optimizer.beta_1, grad.dtype), step)),
        second / (1 - tf.pow(tf.cast(optimizer.beta_2, grad.dtype), step)),
    )
