"""The settings of automatic loss scaling, fixed and checked."""

from __future__ import annotations

from typing import Any


class ALSDefaults:
    """What the optimizers take where nothing is said."""

    initial_loss_scaling_factor = 1
    update_frequency = 8
    increase_factor = 2
    max_loss_scaling_factor = 32768
    accumulate_statistics_over_update_period = True
    ratio_threshold = 10e-6
    captured_grads_only = False
    lpf_alpha = 0.0
    histogram_bin_edge = 2**13


SETTING_NAMES = tuple(name for name in vars(ALSDefaults) if not name.startswith("_"))


class ReadOnly(property):
    """A property that says by name that it cannot be assigned."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, optimizer: Any, value: Any) -> None:
        raise ValueError(f"{self._name} is a read-only property of the optimizer.")


class Setting(ReadOnly):
    """Shows a setting by its own name."""

    def __init__(self) -> None:
        super().__init__(lambda optimizer: vars(optimizer)["_settings"][self._name])


class ShownSettings:
    """What optimizers show of the settings of the one that scales."""

    initial_loss_scaling_factor = Setting()
    update_frequency = Setting()
    increase_factor = Setting()
    max_loss_scaling_factor = Setting()
    accumulate_statistics_over_update_period = Setting()
    ratio_threshold = Setting()
    captured_grads_only = Setting()
    lpf_alpha = Setting()
    histogram_bin_edge = Setting()
    decrease_factor = ReadOnly(lambda self: 1.0 / self.increase_factor)
    supports_captured_grads = ReadOnly(lambda self: True)


def check_settings(settings: dict[str, Any]) -> None:
    """Raise if a setting has no meaning."""
    for name in (
        "initial_loss_scaling_factor",
        "increase_factor",
        "max_loss_scaling_factor",
    ):
        if not _power_of_two(settings[name]):
            raise ValueError(f"{name} must be a power of two, not {settings[name]!r}.")
    for name, valid, allowed in (
        ("update_frequency", settings["update_frequency"] > 0, "positive"),
        ("ratio_threshold", 0 < settings["ratio_threshold"] < 1, "between 0 and 1"),
        ("lpf_alpha", 0 <= settings["lpf_alpha"] <= 1, "from 0 to 1"),
        ("histogram_bin_edge", settings["histogram_bin_edge"] > 0, "positive"),
    ):
        if not valid:
            raise ValueError(f"{name} must be {allowed}, not {settings[name]!r}.")
    first = settings["initial_loss_scaling_factor"]
    most = settings["max_loss_scaling_factor"]
    if first * settings["increase_factor"] >= most:
        raise ValueError(
            f"initial_loss_scaling_factor ({first!r}), also times increase_factor, "
            f"must be below max_loss_scaling_factor ({most!r})."
        )


def _power_of_two(value: float) -> bool:
    return value > 0 and float(value).is_integer() and not int(value) & (int(value) - 1)
