"""`fit`, `evaluate` and `predict` of an extended model: what the mixins call."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.device import Device
from ipu_runtime.keras.extensions.options import ModelOptions


def fit(model: Any, options: ModelOptions, device: Device, **arguments: Any) -> Any:
    """Train; takes the keyword arguments of Keras `fit`, returns its History."""
    raise NotImplementedError


def evaluate(
    model: Any, options: ModelOptions, device: Device, **arguments: Any
) -> Any:
    """Evaluate; takes the keyword arguments of Keras `evaluate`."""
    raise NotImplementedError


def predict(model: Any, options: ModelOptions, device: Device, **arguments: Any) -> Any:
    """Predict; takes the keyword arguments of Keras `predict`."""
    raise NotImplementedError


def profile(model: Any) -> Any:
    """Return the modelled step beside the measured one: `model.ipu_profile()`."""
    raise NotImplementedError


def drop_programs(model: Any) -> None:
    """Forget compiled programs, because options or the assignment changed."""
    raise NotImplementedError
