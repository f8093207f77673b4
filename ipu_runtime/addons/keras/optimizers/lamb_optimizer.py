"""Layer-wise adaptive moments: `LAMBIpuOptimizer`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.addons.keras.optimizers.adam_optimizer import update_moments
from ipu_runtime.addons.keras.optimizers.ipu_optimizer_base import (
    IpuOptimizerBase,
    variable_path,
)
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import Variable


@keras.saving.register_keras_serializable("ipu_tensorflow_addons")
class LAMBIpuOptimizer(IpuOptimizerBase):
    """Adam's step, as long as the weights that it changes are.

    Moments and ratio are computed in the first of the two precisions, the step is
    taken in the second. Patterns are searched for in the variables' paths.
    """

    slot_names = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        debiasing: bool = True,
        m_dtype: Any = None,
        v_dtype: Any = None,
        weight_norm_clip: float | None = None,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32, tf.float32),
        **kwargs: Any,
    ) -> None:
        if len(optimizer_compute_precisions) != 2:
            raise ValueError(
                "optimizer_compute_precisions must have two types, one for the moments "
                "and one for the step, but it is "
                f"{tuple(optimizer_compute_precisions)!r}."
            )
        super().__init__(
            name, optimizer_compute_precisions, learning_rate=learning_rate, **kwargs
        )
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon or keras.config.epsilon()
        self.weight_decay_rate = weight_decay_rate
        self.exclude_from_weight_decay = tuple(exclude_from_weight_decay or ())
        self.exclude_from_layer_adaptation = tuple(exclude_from_layer_adaptation or ())
        self.debiasing = debiasing
        self.m_dtype = m_dtype
        self.v_dtype = v_dtype
        self.weight_norm_clip = weight_norm_clip

    def update_step(
        self, gradient: Any, variable: Variable, learning_rate: Any
    ) -> None:
        """Update one variable."""
        first, second = update_moments(self, gradient, variable)
        update = first / (tf.sqrt(second) + self.epsilon)
        (weights,) = self.in_compute_type(variable)
        path = variable_path(variable)
        if not _matches(self.exclude_from_weight_decay, path):
            update += self.weight_decay_rate * weights
        if not _matches(self.exclude_from_layer_adaptation, path):
            learning_rate *= self._ratio(weights, update)
        last = self.opt_dtypes[1]
        step = tf.cast(learning_rate, last) * tf.cast(update, last)
        self.assign_sub(variable, tf.cast(step, variable.dtype))

    def _ratio(self, weights: Any, update: Any) -> Any:
        """Return how much longer the weights are than the update."""
        length = tf.norm(weights)
        if self.weight_norm_clip is not None:
            length = tf.minimum(length, tf.cast(self.weight_norm_clip, length.dtype))
        of_update = tf.norm(update)
        both = tf.logical_and(length > 0, of_update > 0)
        return tf.where(both, tf.math.divide_no_nan(length, of_update), 1)

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        names = (
            "beta_1",
            "beta_2",
            "epsilon",
            "weight_decay_rate",
            "debiasing",
            "weight_norm_clip",
        )
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "exclude_from_weight_decay": list(self.exclude_from_weight_decay),
            "exclude_from_layer_adaptation": list(self.exclude_from_layer_adaptation),
        }


def _matches(patterns: Sequence[str], path: str) -> bool:
    return any(re.search(pattern, path) for pattern in patterns)
