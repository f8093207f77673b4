"""What the host may learn of a run: traps of numbers, and results that are withheld."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import KerasModel, Structure
from ipu_runtime.plan.config.config_enums import DeviceConnectionType
from ipu_runtime.system.poplar_flags import (
    SyntheticDataCategory,
    use_synthetic_data_for,
)

_PATH = "floating_point_behaviour"
_INVALID = ("set_all", "inv")
_INFINITE = ("set_all", "div0", "oflo")


def callbacks_with_traps(callbacks: Any, config: Mapping[str, Any]) -> Any:
    """Return the callbacks with one that watches, if a trap is set.

    The device traps operations; here the values that reach the host are looked at
    after every execution. Float16 results that overflow are trapped where they arise.
    """
    if not any(_set(config, (*_INVALID, *_INFINITE))):
        return callbacks
    watching = _Watch(config)
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(watching)
        return callbacks
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    return [*(item for item in given if item is not None), watching]


def check_outputs(outputs: Structure, config: Mapping[str, Any]) -> None:
    """Raise if a prediction holds a value that a trap of the configuration catches."""
    flat = enumerate(keras.tree.flatten(outputs))
    _check_finite({f"output {index}": output for index, output in flat}, config)


def _check_finite(values: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raise if a value is one that a trap of the configuration catches."""
    for name, value in values.items():
        numbers = np.asarray(value)
        if not np.issubdtype(numbers.dtype, np.floating):
            continue
        for word, found, fields in (
            ("not a number", np.isnan(numbers).any(), _INVALID),
            ("infinite", np.isinf(numbers).any(), _INFINITE),
        ):
            caught = _set(config, fields)
            if found and caught:
                raise tf.errors.InvalidArgumentError(
                    None, None, f"{_PATH}.{caught[0]} is on, and {name} is {word}."
                )


def _set(config: Mapping[str, Any], fields: tuple[str, ...]) -> list[str]:
    return [name for name in fields if config.get(f"{_PATH}.{name}")]


class _Watch(keras.callbacks.Callback):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self._config = config

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Look at the running values of training."""
        _check_finite(logs or {}, self._config)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Look at the running values of an evaluation."""
        _check_finite(logs or {}, self._config)


def only_compiles(config: Mapping[str, Any]) -> bool:
    """Tell whether the configuration asks for programs without a device."""
    kind = DeviceConnectionType.PRE_COMPILE
    return config.get("device_connection.type") == kind.name


@contextmanager
def variables_restored(model: KerasModel) -> Iterator[None]:
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


def without_outfeed(results: Structure, config: Mapping[str, Any]) -> Any:
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
