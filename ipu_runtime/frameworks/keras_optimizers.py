"""How Keras' optimizers update their variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import Optimizer, Tensor, Variable


def trained_variables(optimizer: Optimizer) -> list[Variable]:
    """Return the variables that a built Keras optimizer updates."""
    return list(optimizer._trainable_variables)


def index_of_variable(optimizer: Optimizer, variable: Variable) -> int:
    """Return which of its variables one is, for a built optimizer."""
    return int(optimizer._get_variable_index(variable))


class PreparedUpdates(keras.optimizers.Optimizer):
    """An optimizer that changes clipped gradients and the rate before it updates."""

    def prepared_update(
        self, gradients: Sequence[Tensor], variables: Sequence[Variable], rate: Any
    ) -> tuple[Sequence[Tensor], Sequence[Variable], Any]:
        """Return what the update is made with, of the same form."""
        raise NotImplementedError

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        prepared = self.prepared_update(grads, trainable_variables, learning_rate)
        super()._backend_update_step(*prepared)
