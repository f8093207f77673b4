"""What loss scaling optimizers of Keras 2 had: fixed scales, and both halves apart."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import hint, replacing
from ipu_runtime.frameworks.habit_points import BaseOptimizer, LossScaleOptimizer
from ipu_runtime.frameworks.patching import Patch, instead

_UNSCALED = "_ipu_unscaled"
"""Attribute of an optimizer whose gradients the script has unscaled itself."""


def accept_loss_scale_habits() -> None:
    """Let losses be scaled by a fixed factor, and gradients unscaled by the script."""
    for owner, name, value in (
        (LossScaleOptimizer, "__new__", staticmethod(_new)),
        (BaseOptimizer, "get_scaled_loss", _get_scaled_loss),
        (BaseOptimizer, "get_unscaled_gradients", _get_unscaled_gradients),
    ):
        Patch(owner, name, instead(value)).install()

    @replacing(LossScaleOptimizer, "__init__")
    def construct(
        original: Any, self: Any, inner_optimizer: Any, *args: Any, **kwargs: Any
    ) -> None:
        fixed = _fixed_scale(args, kwargs)
        if fixed is None:
            kwargs.pop("dynamic", None)
            original(self, inner_optimizer, *args, **kwargs)
        else:
            original(self, inner_optimizer, initial_scale=fixed)
        self.fixed_scale = fixed

    @replacing(LossScaleOptimizer, "scale_loss")
    def scale_loss(original: Any, self: Any, loss: Any) -> Any:
        fixed = self.fixed_scale
        return original(self, loss) if fixed is None else loss * fixed

    @replacing(LossScaleOptimizer, "apply")
    def apply(
        original: Any, self: Any, grads: Any, trainable_variables: Any = None
    ) -> None:
        if self.fixed_scale is None:
            original(self, _as_scaled(self, grads), trainable_variables)
            return
        if not self.built:
            self.build(trainable_variables)
        if not vars(self).pop(_UNSCALED, False):
            # A subclass may leave it to the optimizer inside.
            grads = self.get_unscaled_gradients(list(grads))
            vars(self).pop(_UNSCALED, None)
        self.inner_optimizer.apply(grads, trainable_variables)

    @replacing(BaseOptimizer, "apply")
    def apply_scaled(
        original: Any, self: Any, grads: Any, trainable_variables: Any = None
    ) -> None:
        original(self, _as_scaled(self, grads), trainable_variables)


def _as_scaled(optimizer: Any, grads: Any) -> Any:
    """Return what Keras 3 unscales, where Keras 2 wanted it unscaled already."""
    if not vars(optimizer).pop(_UNSCALED, False):
        return grads
    scale = _scale(optimizer)
    return [None if g is None else g * tf.cast(scale, g.dtype) for g in grads]


def _new(cls: type, inner_optimizer: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return a new LossScaleOptimizer; with a fixed scale the inner one will do."""
    fixed = _fixed_scale(args, kwargs)
    if cls is not LossScaleOptimizer:
        return object.__new__(cls)
    if fixed is None:
        # `compile` wraps the optimizer of every mixed_float16 model once more.
        is_scaled = getattr(inner_optimizer, "fixed_scale", None) is not None
        return inner_optimizer if is_scaled else object.__new__(cls)
    inner_optimizer.loss_scale_factor = inner_optimizer.fixed_scale = fixed
    return inner_optimizer


def _fixed_scale(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the scale that arguments of Keras 2 fix, if they do."""
    dynamic = args[0] if args and isinstance(args[0], bool) else kwargs.get("dynamic")
    if dynamic is not False:
        return None
    hint("LossScaleOptimizer(dynamic=False)")
    return args[1] if args[1:] else kwargs["initial_scale"]


def _scale(optimizer: Any) -> Any:
    """Return the factor that an optimizer scales losses by, if it does."""
    if not isinstance(optimizer, LossScaleOptimizer):
        return optimizer.loss_scale_factor
    if optimizer.fixed_scale is not None:
        return optimizer.fixed_scale
    return optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale


def _get_scaled_loss(self: Any, loss: Any) -> Any:
    hint("optimizer.get_scaled_loss")
    if callable(loss):
        return lambda: self.scale_loss(loss())
    return self.scale_loss(loss)


def _get_unscaled_gradients(self: Any, grads: Any) -> list[Any]:
    """Divide gradients by the scale; `apply` knows of it."""
    scale = _scale(self)
    if scale is None:
        return list(grads)
    vars(self)[_UNSCALED] = True
    return [None if g is None else g / tf.cast(scale, g.dtype) for g in grads]
