"""Which programs of Keras models emulate float16, and how they are traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ipu_runtime.engine.numerics.half_emulation import (
    Draws,
    Emulation,
    current_emulation,
)
from ipu_runtime.engine.numerics.half_operations import half_operations
from ipu_runtime.engine.numerics.half_settings import HalfSettings, half_settings
from ipu_runtime.frameworks.keras_calls import layers_inside
from ipu_runtime.system.device import Device
from ipu_runtime.system.device_state import current_state
from ipu_runtime.system.emulated_device import device_seed


def device_half_settings(device: Device) -> HalfSettings:
    """Return what the device's configuration says about float16 results."""
    return half_settings(device.config, device.identical_replicas)


def half_emulation(
    model: Any, replicas: int, device: Device, observed: bool
) -> Emulation | None:
    """Return how a model's float16 results are made; None if as on the host.

    Args:
        observed: whether the optimizer scales losses by how many gradients are too
            large: these saturate as on the device, so that weights stay finite
            until the factor has fallen.
    """
    settings = device_half_settings(device)
    if not (settings.asked or observed) or all(
        layer.compute_dtype != "float16" for layer in layers_inside(model)
    ):
        return None
    return Emulation(settings, Draws(device.seed, replicas))


def emulation_now() -> Emulation:
    """Return how float16 is emulated here, or what the configuration says."""
    now = current_emulation()
    if now is None:
        settings = half_settings(current_state().options.fields)
        now = Emulation(settings, Draws(device_seed()))
    return now


@contextmanager
def configured_half() -> Iterator[None]:
    """Trace a function of a script as the configuration says."""
    now = emulation_now()
    with half_operations(now if now.settings.asked else None):
        yield


@contextmanager
def half_scope(**settings: bool) -> Iterator[None]:
    """Change some settings for the operations that are made inside."""
    now = emulation_now()
    with half_operations(Emulation(replace(now.settings, **settings), now.draws)):
        yield


def emulated(
    function: Callable[..., Any], emulation: Emulation | None
) -> Callable[..., Any]:
    """Return a function that makes float16 results so when it is traced."""
    if emulation is None:
        return function

    @functools.wraps(function)
    def tracing(*args: Any) -> Any:
        with half_operations(emulation):
            return function(*args)

    return tracing
