"""Automatic loss scaling, alone and with gradient accumulation around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.keras.optimizers.als_settings import (
    SETTING_NAMES,
    ALSDefaults,
    ReadOnly,
    ShownSettings,
)
from ipu_runtime.keras.optimizers.gradient_accumulation_optimizer import (
    GradientAccumulationOptimizer,
)
from ipu_runtime.keras.optimizers.scaling_optimizer import ALSOptimizer

__all__ = ["ALSDefaults", "ALSGradientAccumulationOptimizer", "ALSOptimizer"]


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSGradientAccumulationOptimizer(ShownSettings, GradientAccumulationOptimizer):
    """Accumulates around an optimizer with automatic loss scaling.

    Statistics are taken of every mini-batch; the factor changes with weight updates.
    """

    def __new__(cls, als_optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Refuse other optimizers."""
        if not isinstance(als_optimizer, ALSOptimizer):
            raise ValueError(
                f"`als_optimizer` must be an ALSOptimizer, not {als_optimizer!r}."
            )
        return super().__new__(cls, als_optimizer, *args, **kwargs)

    @with_arguments_of(
        GradientAccumulationOptimizer.__init__,
        without=("opt",),
        name="ALSGradientAccumulationOptimizer",
    )
    def __init__(self, als_optimizer: Any, **arguments: Any) -> None:
        super().__init__(als_optimizer, **arguments)
        self._settings = {key: getattr(als_optimizer, key) for key in SETTING_NAMES}

    als_optimizer = ReadOnly(lambda self: self.inner)
    loss_scaling_factor = ReadOnly(lambda self: self.inner.loss_scaling_factor)
    previous_loss_scaling_factor = ReadOnly(
        lambda self: self.inner.previous_loss_scaling_factor
    )
    update_counter = ReadOnly(lambda self: self.inner.update_counter)
    histogram = ReadOnly(lambda self: self.inner.histogram)
    normalized_histogram = ReadOnly(lambda self: self.inner.normalized_histogram)

    def apply_gradients(
        self,
        grads_and_vars: Any,
        captured_grads: Mapping[str, Any] | None = None,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Take the statistics of a mini-batch, and accumulate it."""
        del name, experimental_aggregate_gradients
        grads, variables = zip(*grads_and_vars, strict=True)
        self._ensure_built(variables)
        self.inner.observe_applied(grads, captured_grads)
        with self.inner.observed():
            self.apply(grads, variables)
        return self.iterations

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Take the statistics of a mini-batch, and accumulate it."""
        self._ensure_built(trainable_variables)
        self.inner.observe_applied(grads, None)
        with self.inner.observed():
            super().apply(grads, trainable_variables)

    def get_config(self) -> Any:
        """Return what `from_config` takes."""
        config = super().get_config()
        return {"als_optimizer": config.pop("opt"), **config}

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Return the optimizer that a configuration describes."""
        inner = keras.saving.deserialize_keras_object(
            config["als_optimizer"], custom_objects
        )
        return cls(**config | {"als_optimizer": inner})
