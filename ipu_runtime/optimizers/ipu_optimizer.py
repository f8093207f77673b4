"""Optimizers that wrap another one: the base of `ipu.optimizers`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

GradientsAndVariables = Iterable[tuple[Any, Any]]


class IpuOptimizer(tf.compat.v1.train.Optimizer):
    """Hands everything on to the optimizer that it wraps."""

    def __init__(self, opt: Any, name: str | None = None) -> None:
        if not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise ValueError(
                f"{type(self).__name__} wraps tf.compat.v1.train optimizers only, but "
                f"got {opt!r} ({type(opt).__name__})."
            )
        super().__init__(False, name or type(self).__name__)
        self._opt = opt

    @property
    def wrapped(self) -> Any:
        """The optimizer that does the update."""
        return self._opt

    def compute_gradients(
        self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Compute gradients as the wrapped optimizer does."""
        return self._opt.compute_gradients(loss, var_list, *args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Update the variables as the wrapped optimizer does."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the wrapped optimizer's slot names."""
        return list(self._opt.get_slot_names(*args, **kwargs))

    def variables(self) -> list[Any]:
        """Return the wrapped optimizer's variables."""
        return list(self._opt.variables())


def check_gradient_types(optimizer: Any, pairs: GradientsAndVariables) -> None:
    """Raise if TensorFlow's own optimizer would get gradients of another type.

    An accumulator may have another type than its variable, and the optimizer gets the
    gradient in that type: it has to cast it. TensorFlow's kernels, such as that of
    ResourceApplyGradientDescent, end the process instead.
    """
    while isinstance(optimizer, IpuOptimizer):
        optimizer = optimizer.wrapped
    if not type(optimizer).__module__.startswith("tensorflow."):
        return
    for gradient, variable in pairs:
        if gradient.dtype != variable.dtype:
            raise TypeError(
                f"The gradients of {variable.name} ({variable.dtype.name}) are "
                f"accumulated in {gradient.dtype.name}, and are given in that type to "
                f"{type(optimizer).__name__}, which updates with gradients of the "
                "variable's type alone: cast them in an `apply_gradients` of your own, "
                "or accumulate in the variable's type."
            )
