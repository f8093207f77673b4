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
            # ALSOptimizer has `get_gradients` itself, for scripts that call it.
            if any(name in vars(kind) for kind in _foreign_classes(optimizer)):
                raise NotImplementedError(
                    f"The optimizer {type(optimizer).__name__} overrides `{name}`, "
                    "which only Keras 2 calls: it would train without what is written "
                    "there. Override `update_step(gradient, variable, learning_rate)` "
                    "or `apply_gradients` instead."
                )
        optimizer = getattr(optimizer, "inner", None) or getattr(
            optimizer, "inner_optimizer", None
        )


def _foreign_classes(optimizer: Any) -> list[type]:
    """Return an optimizer's classes that are not of the emulated API."""
    return [
        kind
        for kind in type(optimizer).__mro__
        if not kind.__module__.startswith("ipu_runtime.")
    ]
