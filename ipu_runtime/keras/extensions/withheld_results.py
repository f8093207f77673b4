"""Runs that the host learns nothing from: no device is there, or no data is moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.plan.config.config_enums import DeviceConnectionType
from ipu_runtime.system.poplar_flags import (
    SyntheticDataCategory,
    use_synthetic_data_for,
)


def only_compiles(config: Mapping[str, Any]) -> bool:
    """Tell whether the configuration asks for programs without a device."""
    kind = DeviceConnectionType.PRE_COMPILE
    return config.get("device_connection.type") == kind.name


@contextmanager
def variables_kept(model: Any) -> Iterator[None]:
    """Give the variables back the values that they have now.

    The emulator compiles a program by running it, which must leave no trace.
    """
    variables = list(model.variables)
    if getattr(model, "optimizer", None) is not None:
        variables += model.optimizer.variables
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def without_outfeed(results: Any, config: Mapping[str, Any]) -> Any:
    """Return zeros in the place of results, if none are moved to the host."""
    synthetic = use_synthetic_data_for(SyntheticDataCategory.Outfeed)
    if not (synthetic or only_compiles(config)):
        return results
    if isinstance(results, keras.callbacks.History):
        for name, values in results.history.items():
            results.history[name] = [0.0] * len(values)
        return results
    return keras.tree.map_structure(_zero, results)


def _zero(value: Any) -> Any:
    return np.zeros_like(value) if isinstance(value, np.ndarray) else 0.0
