"""Automatic loss scaling around SGD, Adam and RMSprop, with their own arguments."""

from __future__ import annotations

from typing import Any

import keras

from ipu_runtime.keras.optimizers.als_settings import SETTING_NAMES, ALSDefaults
from ipu_runtime.keras.optimizers.scaling_optimizer import ALSOptimizer


class _Named(ALSOptimizer):
    _inner_class: Any
    _inner_names: tuple[str, ...]

    def __init__(self, arguments: dict[str, Any]) -> None:
        inner = {name: arguments[name] for name in self._inner_names}
        settings = {name: arguments[name] for name in SETTING_NAMES}
        super().__init__(self._inner_class(**inner), **settings, name=arguments["name"])

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

    _inner_class = keras.optimizers.SGD
    _inner_names = ("learning_rate", "momentum")

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        initial_loss_scaling_factor: float = ALSDefaults.initial_loss_scaling_factor,
        update_frequency: int = ALSDefaults.update_frequency,
        increase_factor: float = ALSDefaults.increase_factor,
        max_loss_scaling_factor: float = ALSDefaults.max_loss_scaling_factor,
        accumulate_statistics_over_update_period: bool = (
            ALSDefaults.accumulate_statistics_over_update_period
        ),
        ratio_threshold: float = ALSDefaults.ratio_threshold,
        captured_grads_only: bool = ALSDefaults.captured_grads_only,
        lpf_alpha: float = ALSDefaults.lpf_alpha,
        histogram_bin_edge: float = ALSDefaults.histogram_bin_edge,
        name: str = "ALSOptimizerSGD",
    ) -> None:
        super().__init__(locals())


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSOptimizerAdam(_Named):
    """Loss scaling around Adam."""

    _inner_class = keras.optimizers.Adam
    _inner_names = ("learning_rate", "beta_1", "beta_2", "epsilon")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-07,
        initial_loss_scaling_factor: float = ALSDefaults.initial_loss_scaling_factor,
        update_frequency: int = ALSDefaults.update_frequency,
        increase_factor: float = ALSDefaults.increase_factor,
        max_loss_scaling_factor: float = ALSDefaults.max_loss_scaling_factor,
        accumulate_statistics_over_update_period: bool = (
            ALSDefaults.accumulate_statistics_over_update_period
        ),
        ratio_threshold: float = ALSDefaults.ratio_threshold,
        captured_grads_only: bool = ALSDefaults.captured_grads_only,
        lpf_alpha: float = ALSDefaults.lpf_alpha,
        histogram_bin_edge: float = ALSDefaults.histogram_bin_edge,
        name: str = "ALSOptimizerAdam",
    ) -> None:
        super().__init__(locals())


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSOptimizerRMSProp(_Named):
    """Loss scaling around RMSprop."""

    _inner_class = keras.optimizers.RMSprop
    _inner_names = ("learning_rate", "rho", "momentum", "epsilon", "centered")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-07,
        centered: bool = False,
        initial_loss_scaling_factor: float = ALSDefaults.initial_loss_scaling_factor,
        update_frequency: int = ALSDefaults.update_frequency,
        increase_factor: float = ALSDefaults.increase_factor,
        max_loss_scaling_factor: float = ALSDefaults.max_loss_scaling_factor,
        accumulate_statistics_over_update_period: bool = (
            ALSDefaults.accumulate_statistics_over_update_period
        ),
        ratio_threshold: float = ALSDefaults.ratio_threshold,
        captured_grads_only: bool = ALSDefaults.captured_grads_only,
        lpf_alpha: float = ALSDefaults.lpf_alpha,
        histogram_bin_edge: float = ALSDefaults.histogram_bin_edge,
        name: str = "ALSOptimizerRMSProp",
    ) -> None:
        super().__init__(locals())
