"""A Keras optimizer around another one."""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.keras_api import keras


class WrappedOptimizer(keras.optimizers.Optimizer):
    """Hands everything to the inner optimizer unless a subclass says otherwise."""

    built: bool

    def __init__(self, opt: Any, name: str | None = None) -> None:
        super().__init__(learning_rate=0.0, name=name)
        if isinstance(opt, dict):
            opt = keras.saving.deserialize_keras_object(opt)
        self.inner = keras.optimizers.get(opt)

    def build(self, variables: Any) -> None:
        """Make the variables of both."""
        self.inner.build(variables)
        super().build(variables)

    def scale_loss(self, loss: Any) -> Any:
        """Scale the loss as the inner optimizer, which unscales, wants it."""
        return self.inner.scale_loss(loss)

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Update the variables with the inner optimizer."""
        self._ensure_built(trainable_variables)
        self.inner.apply(grads, trainable_variables)

    def _ensure_built(self, trainable_variables: Any) -> None:
        if not self.built:
            with keras.name_scope(self.name):
                self.build(trainable_variables)
            self.built = True

    @property
    def loss_scale_factor(self) -> Any:
        """That of the inner optimizer, which unscales."""
        return self.inner.loss_scale_factor

    @loss_scale_factor.setter
    def loss_scale_factor(self, factor: float | None) -> None:
        # Keras' constructor sets it before there is an inner optimizer.
        if "inner" in vars(self):
            self.inner.loss_scale_factor = factor

    @property
    def variables(self) -> Any:
        """Variables of both."""
        return super().variables + self.inner.variables

    @property
    def iterations(self) -> Any:
        """Weight updates so far."""
        return self.inner.iterations

    @property
    def learning_rate(self) -> Any:
        """That of the inner optimizer."""
        return self.inner.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        self.inner.learning_rate = learning_rate

    def finalize_variable_values(self, var_list: Any) -> None:
        """Let the inner optimizer finish, for example averages of weights."""
        self.inner.finalize_variable_values(var_list)

    def get_config(self) -> Any:
        """Return name and inner optimizer."""
        return {"name": self.name, "opt": keras.optimizers.serialize(self.inner)}
