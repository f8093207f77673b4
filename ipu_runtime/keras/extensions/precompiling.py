"""`DeviceConnectionType.PRE_COMPILE`: programs are made, but no device runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ipu_runtime.plan.config_enums import DeviceConnectionType


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
