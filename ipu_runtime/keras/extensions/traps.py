"""`floating_point_behaviour`: stop when a loss or a metric is not a finite number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras

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


def check_outputs(outputs: Any, config: Mapping[str, Any]) -> None:
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
