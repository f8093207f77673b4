"""Automatic loss scaling: checked settings, and no change of float32 numerics."""

from __future__ import annotations

from typing import Any

import keras

from ipu_runtime.keras.optimizers.wrapped import WrappedOptimizer

_FIXED = (
    "update_frequency",
    "increase_factor",
    "max_loss_scaling_factor",
    "initial_loss_scaling_factor",
    "ratio_threshold",
    "captured_grads_only",
    "lpf_alpha",
    "histogram_bin_edge",
    "accumulate_statistics_over_update_period",
)


class ALSOptimizer(WrappedOptimizer):
    """Scales losses on the device against float16 underflow; here float32 is exact."""

    def __init__(
        self,
        opt: Any,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 2**13,
        replicated_optimizer_state_sharding: bool = False,
        name: str = "ALSOptimizer",
    ) -> None:
        del replicated_optimizer_state_sharding
        settings = {
            "initial_loss_scaling_factor": initial_loss_scaling_factor,
            "update_frequency": update_frequency,
            "increase_factor": increase_factor,
            "max_loss_scaling_factor": max_loss_scaling_factor,
            "accumulate_statistics_over_update_period": (
                accumulate_statistics_over_update_period
            ),
            "ratio_threshold": ratio_threshold,
            "captured_grads_only": captured_grads_only,
            "lpf_alpha": lpf_alpha,
            "histogram_bin_edge": histogram_bin_edge,
        }
        _check(settings)
        super().__init__(opt, name)
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        settings = vars(self).get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED:
            raise ValueError(
                f"{name} cannot be changed after the optimizer is created."
            )
        super().__setattr__(name, value)

    @property
    def loss_scaling_factor(self) -> float:
        """The factor now: always the first one, because nothing underflows here."""
        return float(self._settings["initial_loss_scaling_factor"])

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {**super().get_config(), **self._settings}


class _Named(ALSOptimizer):
    inner_class: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        scaling = {name: kwargs.pop(name) for name in _FIXED if name in kwargs}
        name = kwargs.pop("name", type(self).__name__)
        super().__init__(self.inner_class(*args, **kwargs), name=name, **scaling)


class ALSOptimizerSGD(_Named):
    """Loss scaling around SGD."""

    inner_class = keras.optimizers.SGD


class ALSOptimizerAdam(_Named):
    """Loss scaling around Adam."""

    inner_class = keras.optimizers.Adam


class ALSOptimizerRMSProp(_Named):
    """Loss scaling around RMSprop."""

    inner_class = keras.optimizers.RMSprop


def _check(settings: dict[str, Any]) -> None:
    powers = (
        "initial_loss_scaling_factor",
        "increase_factor",
        "max_loss_scaling_factor",
    )
    for name in powers:
        if not _power_of_two(settings[name]):
            raise ValueError(f"{name} must be a power of two, not {settings[name]!r}.")
    if settings["update_frequency"] <= 0:
        raise ValueError(
            f"update_frequency must be positive, not {settings['update_frequency']!r}."
        )
    if not 0 < settings["ratio_threshold"] < 1:
        raise ValueError(
            "ratio_threshold must be between 0 and 1, not "
            f"{settings['ratio_threshold']!r}."
        )
    first, most = (
        settings["initial_loss_scaling_factor"],
        settings["max_loss_scaling_factor"],
    )
    if first >= most or first * settings["increase_factor"] >= most:
        raise ValueError(
            f"initial_loss_scaling_factor ({first!r}), also times increase_factor, "
            f"must be below max_loss_scaling_factor ({most!r})."
        )


def _power_of_two(value: float) -> bool:
    return value > 0 and float(value).is_integer() and not int(value) & (int(value) - 1)
