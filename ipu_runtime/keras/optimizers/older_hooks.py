"""Methods that Keras 2 called on its optimizers, and Keras 3 never calls."""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.keras_api import keras

_NEVER_CALLED = (
    "_resource_apply_dense",
    "_resource_apply_sparse",
    "get_gradients",
    "_aggregate_gradients",
)


def refuse_older_hooks(optimizer: Any) -> None:
    """Raise if an optimizer, or one inside it, hopes to be called as by Keras 2."""
    while isinstance(optimizer, keras.optimizers.Optimizer):
        for name in _NEVER_CALLED:
            if hasattr(type(optimizer), name):
                raise NotImplementedError(
                    f"The optimizer {type(optimizer).__name__} overrides `{name}`, "
                    "which only Keras 2 calls: it would train without what is written "
                    "there. Override `update_step(gradient, variable, learning_rate)` "
                    "or `apply_gradients` instead."
                )
        optimizer = getattr(optimizer, "inner", None) or getattr(
            optimizer, "inner_optimizer", None
        )
