"""Automatic loss scaling around SGD, Adam and RMSprop, with their own arguments."""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.keras.optimizers.scaling_optimizer import ALSOptimizer


class _Named(ALSOptimizer):
    _inner_names: tuple[str, ...]

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        inner = self.inner.get_config()
        return {
            "name": self.name,
            **{name: inner[name] for name in self._inner_names},
            **self._settings,
        }


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSOptimizerSGD(_Named):
    """Loss scaling around SGD."""

    _inner_names = ("learning_rate", "momentum")

    @with_arguments_of(ALSOptimizer.__init__, without=("opt",), name="ALSOptimizerSGD")
    def __init__(
        self, learning_rate: Any = 0.01, momentum: float = 0.0, **settings: Any
    ) -> None:
        inner = keras.optimizers.SGD(learning_rate, momentum)
        super().__init__(inner, **settings)


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSOptimizerAdam(_Named):
    """Loss scaling around Adam."""

    _inner_names = ("learning_rate", "beta_1", "beta_2", "epsilon")

    @with_arguments_of(ALSOptimizer.__init__, without=("opt",), name="ALSOptimizerAdam")
    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-07,
        **settings: Any,
    ) -> None:
        inner = keras.optimizers.Adam(learning_rate, beta_1, beta_2, epsilon)
        super().__init__(inner, **settings)


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSOptimizerRMSProp(_Named):
    """Loss scaling around RMSprop."""

    _inner_names = ("learning_rate", "rho", "momentum", "epsilon", "centered")

    @with_arguments_of(
        ALSOptimizer.__init__, without=("opt",), name="ALSOptimizerRMSProp"
    )
    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-07,
        centered: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(
            keras.optimizers.RMSprop(learning_rate, rho, momentum, epsilon, centered),
            **settings,
        )
