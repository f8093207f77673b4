"""The arguments of `fit`, `evaluate` and `predict`: those of Keras' own methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ipu_runtime.frameworks.keras_api import keras

_OF_KERAS_TWO = ("max_queue_size", "workers", "use_multiprocessing")
"""Taken and left alone: the device has one infeed, which reads ahead by itself."""


def with_arguments_of_keras(
    method: Callable[[Any, dict[str, Any]], Any],
) -> Callable[..., Any]:
    """Give a method the signature of Keras' method; it gets what was given, by name."""
    name = method.__name__
    signature = inspect.signature(getattr(keras.Model, name))
    named = signature.replace(
        parameters=[
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
    )

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        for ignored in _OF_KERAS_TWO:
            kwargs.pop(ignored, None)
        try:
            given = named.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return method(given.pop("self"), given)

    called.__signature__ = signature  # type: ignore[attr-defined]
    return called
