"""Habits of Keras 2 scripts that Keras 3 can be taught without changing its own."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import keras


def accept_old_habits() -> None:
    """Let `Input(shape=80)` mean `Input(shape=(80,))`, as it did in Keras 2."""
    input_layer = keras.layers.InputLayer
    original = input_layer.__init__

    @functools.wraps(original)
    def with_shape_tuple(
        self: Any, shape: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        original(self, (shape,) if isinstance(shape, int) else shape, *args, **kwargs)

    # Keras reads constructor arguments in two ways that must agree.
    with_shape_tuple.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    input_layer.__init__ = with_shape_tuple
