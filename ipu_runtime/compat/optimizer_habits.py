"""Arguments, attributes and methods that optimizers of Keras 2 had."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import hint, replacing
from ipu_runtime.frameworks.habit_points import BaseOptimizer, learning_rate_setting
from ipu_runtime.frameworks.keras_api import keras

_Optimizer = keras.optimizers.Optimizer


def accept_optimizer_habits() -> None:
    """Let optimizers of Keras 3 be made and used as those of Keras 2 were."""
    _take_older_arguments()
    _decay_learning_rates()
    _apply_gradients()
    BaseOptimizer.lr = property(_rate, _set_rate)
    BaseOptimizer.weights = property(_weights)
    BaseOptimizer.get_weights = lambda self: [item.numpy() for item in _weights(self)]
    BaseOptimizer.minimize = _minimize


def _take_older_arguments() -> None:
    @replacing(BaseOptimizer, "__init__")
    def construct(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if "lr" in kwargs:
            hint("Optimizer(lr=)")
            kwargs["learning_rate"] = kwargs.pop("lr")
        decay = kwargs.pop("decay", None) or 0.0
        if args and isinstance(args[0], str):
            # The base class of Keras 2 took its name first, and no learning rate.
            kwargs["name"], *args = args  # type: ignore[assignment]
        if not args:
            kwargs.setdefault("learning_rate", 0.0)
        rate: Any = kwargs.get("learning_rate")
        if tf.is_tensor(rate) and tf.executing_eagerly():
            kwargs["learning_rate"] = float(rate)
        transformers = kwargs.pop("gradient_transformers", None)
        original(self, *args, **kwargs)
        self.older_transformers = transformers is not None
        if self.older_transformers:
            hint("Optimizer(gradient_transformers=)")
            self.gradient_transformers = list(transformers)
        if decay:
            hint("Optimizer(decay=)")
        self.initial_decay = decay


def _decay_learning_rates() -> None:
    @replacing(_Optimizer, "_backend_update_step")
    def update(original: Any, self: Any, grads: Any, weights: Any, rate: Any) -> Any:
        if self.older_transformers:
            pairs = list(zip(grads, weights, strict=True))
            for transform in self.gradient_transformers:
                pairs = list(transform(pairs))
            grads, weights = map(list, zip(*pairs, strict=True))
        return original(self, grads, weights, decayed(self, rate))

    @replacing(BaseOptimizer, "_get_current_learning_rate")
    def current(original: Any, self: Any) -> Any:
        schedule = learning_rate_setting(self)
        schedules = keras.optimizers.schedules.LearningRateSchedule
        own = type(schedule).__module__.startswith("keras.")
        if own or not isinstance(schedule, schedules):
            return original(self)
        hint("schedule(float step)")
        return schedule(tf.cast(self._iterations, tf.float32))


def decayed(optimizer: Any, rate: Any) -> Any:
    """Return the learning rate after as many updates as there have been."""
    if not optimizer.initial_decay:
        return rate
    updates = tf.cast(optimizer.iterations, tf.float32)
    return tf.convert_to_tensor(rate) / (1.0 + optimizer.initial_decay * updates)


def _apply_gradients() -> None:
    @replacing(BaseOptimizer, "apply_gradients")
    def apply(
        original: Any,
        self: Any,
        grads_and_vars: Any,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        if name is not None:
            hint("apply_gradients(name=)")
        if experimental_aggregate_gradients:
            return original(self, grads_and_vars)
        hint("apply_gradients(experimental_aggregate_gradients=)")
        vars(self)["_all_reduce_sum_gradients"] = list
        try:
            return original(self, grads_and_vars)
        finally:
            del vars(self)["_all_reduce_sum_gradients"]


def _rate(optimizer: Any) -> Any:
    hint("optimizer.lr")
    return learning_rate_setting(_inner(optimizer))


def _set_rate(optimizer: Any, rate: Any) -> None:
    hint("optimizer.lr")
    optimizer.learning_rate = rate


def _inner(optimizer: Any) -> Any:
    """Return the optimizer that others are wrapped around."""
    for name in ("inner_optimizer", "inner"):
        if name in vars(optimizer):
            return _inner(vars(optimizer)[name])
    return optimizer


def _weights(optimizer: Any) -> Any:
    hint("optimizer.weights")
    return optimizer.variables


def _minimize(
    optimizer: Any,
    loss: Any,
    var_list: Any,
    grad_loss: Any = None,
    name: str | None = None,
    tape: Any = None,
) -> Any:
    """Compute the gradients of a loss, and apply them."""
    del name
    hint("optimizer.minimize")
    if tape is None:
        with tf.GradientTape() as tape:
            loss = loss()
    weights = list(var_list() if callable(var_list) else var_list)
    gradients = tape.gradient(loss, weights, grad_loss)
    return optimizer.apply_gradients(list(zip(gradients, weights, strict=True)))
