"""Samples shared out between training and testing, where the data do not say it."""

from __future__ import annotations

from typing import Any

import numpy as np


def shared_out(samples: tuple[Any, Any], test_samples: int) -> tuple[Any, Any]:
    """Return both parts; which samples are in which depends on their number alone.

    So runs with other seeds are tested with the same samples.
    """
    first = samples
    while not isinstance(first, np.ndarray):
        first = next(iter(first.values() if isinstance(first, dict) else first))
    order = np.random.default_rng(0).permutation(len(first))
    train, test = np.split(order, [len(first) - test_samples])
    return _taken(samples, train), _taken(samples, test)


def _taken(values: Any, order: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_taken(array, order) for array in values)
    if isinstance(values, dict):
        return {name: _taken(array, order) for name, array in values.items()}
    return values[order]


def as_arrays(train: tuple[Any, Any], test: tuple[Any, Any]) -> dict[str, Any]:
    """Return both parts under the names that files of arrays use."""
    (x_train, y_train), (x_test, y_test) = train, test
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
