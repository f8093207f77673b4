"""What the optimizers of the addons have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_optimizers import (
    PreparedUpdates,
    index_of_variable,
)
from ipu_runtime.frameworks.types import Tensor, Variable


class IpuOptimizerBase(PreparedUpdates):
    """Keeps states in types of their own, and computes in chosen precisions.

    A subclass names its states in `slot_names` and defines `update_step`.
    """

    built: bool
    slot_names: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32,),
        outline_apply_gradients: bool = False,
        outline_apply_gradients_kwargs: Mapping[str, Any] | None = None,
        learning_rate: Any = 0.001,
        lr: Any = None,
        decay: float | None = None,
        gradient_transformers: Sequence[Callable[..., Any]] | None = None,
        gradient_aggregator: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if gradient_aggregator is not None:
            raise NotImplementedError(
                f"{type(self).__name__}: `gradient_aggregator` is not emulated; leave "
                "it out, the gradients of replicas are summed."
            )
        rate = learning_rate if lr is None else lr
        super().__init__(
            learning_rate=float(rate) if isinstance(rate, int) else rate,
            name=name,
            **kwargs,
        )
        self.opt_dtypes = tuple(map(tf.as_dtype, optimizer_compute_precisions))
        # Outlining shares code on the device; it changes no result.
        self.outline_apply_gradients = outline_apply_gradients
        self.outline_apply_gradients_kwargs = dict(outline_apply_gradients_kwargs or {})
        self.decay = decay or 0.0
        self.gradient_transformers = list(gradient_transformers or ())
        self._slots: dict[str, dict[str, Any]] = {}

    def build(self, variables: Any) -> None:
        """Make the states."""
        if self.built:
            return
        # Stock optimizers that a subclass stands for would make states of their own.
        keras.optimizers.Optimizer.build(self, variables)
        for name in self.slot_names:
            for variable in variables:
                self.add_slot(variable, name)

    def add_slot(
        self,
        var: Any,
        slot_name: str,
        initializer: Any = "zeros",
        shape: Any = None,
        dtype: Any = None,
    ) -> Any:
        """Return a state of a variable, made if it is not there yet."""
        slots = self._slots.setdefault(slot_name, {})
        index = str(index_of_variable(self, var))
        if index not in slots:
            chosen = dtype or self.get_slot_dtype(var, slot_name)
            slots[index] = self.add_variable(
                var.shape if shape is None else shape,
                initializer,
                dtype=_type_name(chosen, var),
                name=f"{variable_path(var).replace('/', '_')}_{slot_name}",
            )
        return slots[index]

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return a state of a variable."""
        return self._slots[slot_name][str(index_of_variable(self, var))]

    def get_slot_dtype(self, var: Any, slot_name: str) -> Any:
        """Return the type of a state; None means the variable's own."""
        del var
        return getattr(self, f"{slot_name}_dtype", None)

    def prepared_update(
        self, gradients: Sequence[Tensor], variables: Sequence[Variable], rate: Any
    ) -> tuple[Sequence[Tensor], Sequence[Variable], Any]:
        """Let the transformers see clipped gradients before the update."""
        pairs = list(zip(gradients, variables, strict=True))
        for transform in self.gradient_transformers:
            pairs = list(transform(pairs))
        for gradient, variable in pairs:
            if isinstance(gradient, tf.IndexedSlices):
                raise NotImplementedError(
                    f"{type(self).__name__} has no update for the sparse gradient of "
                    f"{variable_path(variable)}: use the Embedding of "
                    "ipu_tensorflow_addons.keras.layers."
                )
        dtype = self.opt_dtypes[0]
        rate = tf.cast(tf.convert_to_tensor(rate), dtype)
        if self.decay:
            rate /= 1 + self.decay * tf.cast(self.iterations, dtype)
        changed, kept = map(list, zip(*pairs, strict=True))
        return changed, kept, rate

    def in_compute_type(self, *values: Any) -> list[Any]:
        """Return values in the type that updates are computed in."""
        return [
            tf.cast(tf.convert_to_tensor(item), self.opt_dtypes[0]) for item in values
        ]

    def get_config(self) -> Any:
        """Return what the constructor takes, types by name."""
        types = {
            name: value if value is None else tf.as_dtype(value).name
            for name, value in vars(self).items()
            if name.endswith("_dtype") and not callable(value)
        }
        return {
            **super().get_config(),
            **types,
            "optimizer_compute_precisions": [item.name for item in self.opt_dtypes],
            "outline_apply_gradients": self.outline_apply_gradients,
            "outline_apply_gradients_kwargs": dict(self.outline_apply_gradients_kwargs),
            "decay": self.decay,
        }


def _type_name(chosen: Any, variable: Variable) -> str:
    """Return the name of a type, which may be that of the variable or a function."""
    if chosen is None:
        chosen = variable.dtype
    elif callable(chosen) and not isinstance(chosen, type):
        chosen = chosen(variable)
    return str(tf.as_dtype(chosen).name)


def variable_path(variable: Variable) -> str:
    """Return layer and name of a variable, as patterns are matched against them."""
    return str(getattr(variable, "path", variable.name)).split(":")[0]
