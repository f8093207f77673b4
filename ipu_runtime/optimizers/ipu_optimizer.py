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
