"""Arguments, attributes and methods that optimizers of Keras 2 had."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import hint, replacing
from ipu_runtime.frameworks.habit_points import (
    BaseOptimizer,
    current_rate_patch,
    learning_rate_setting,
    unsummed_patch,
    update_step_patch,
)
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, around, instead
from ipu_runtime.frameworks.types import Optimizer


def accept_optimizer_habits() -> None:
    """Let optimizers of Keras 3 be made and used as those of Keras 2 were."""
    _take_older_arguments()
    update_step_patch(around(_update)).install()
    current_rate_patch(around(_current_rate)).install()
    _apply_gradients()
    for name, value in (
        ("lr", property(_rate, _set_rate)),
        ("get_weights", _get_weights),
        ("minimize", _minimize),
    ):
        Patch(BaseOptimizer, name, instead(value)).install()


def _take_older_arguments() -> None:
    @replacing(BaseOptimizer, "__init__")
    def construct(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
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


def _update(
    original: Any, optimizer: Optimizer, grads: Any, weights: Any, rate: Any
) -> Any:
    if optimizer.older_transformers:
        pairs = list(zip(grads, weights, strict=True))
        for transform in optimizer.gradient_transformers:
            pairs = list(transform(pairs))
        grads, weights = map(list, zip(*pairs, strict=True))
    return original(optimizer, grads, weights, decayed(optimizer, rate))


def _current_rate(original: Any, optimizer: Optimizer) -> Any:
    schedule = learning_rate_setting(optimizer)
    schedules = keras.optimizers.schedules.LearningRateSchedule
    own = type(schedule).__module__.startswith("keras.")
    if own or not isinstance(schedule, schedules):
        return original(optimizer)
    hint("schedule(float step)")
    return schedule(tf.cast(optimizer.iterations, tf.float32))


def decayed(optimizer: Optimizer, rate: Any) -> Any:
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
        with unsummed_patch(self).applied():
            return original(self, grads_and_vars)


def _rate(optimizer: Optimizer) -> Any:
    hint("optimizer.lr")
    return learning_rate_setting(_inner(optimizer))


def _set_rate(optimizer: Optimizer, rate: Any) -> None:
    hint("optimizer.lr")
    optimizer.learning_rate = rate


def _inner(optimizer: Optimizer) -> Any:
    """Return the optimizer that others are wrapped around."""
    for name in ("inner_optimizer", "inner"):
        if name in vars(optimizer):
            return _inner(vars(optimizer)[name])
    return optimizer


def _get_weights(optimizer: Optimizer) -> list[Any]:
    hint("optimizer.weights")
    return [item.numpy() for item in optimizer.variables]


def _minimize(
    optimizer: Optimizer,
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
