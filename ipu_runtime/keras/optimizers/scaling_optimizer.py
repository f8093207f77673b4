"""Automatic loss scaling: losses grow until float16 gradients become too large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_state import stored
from ipu_runtime.keras.optimizers.als_settings import (
    SETTING_NAMES,
    ALSDefaults,
    ReadOnly,
    ShownSettings,
    check_settings,
)
from ipu_runtime.keras.optimizers.wrapped_optimizer import WrappedOptimizer
from ipu_runtime.ops.statistics_ops import histogram_normalize


@keras.saving.register_keras_serializable("ipu_runtime")
class ALSOptimizer(ShownSettings, WrappedOptimizer):
    """Multiplies losses by a factor and divides gradients by it, in float32.

    The weight update after `update_frequency` others divides the factor by
    `increase_factor` if too many float16 gradients reach `histogram_bin_edge`, and
    multiplies it otherwise; it stays at least 1 and below the greatest.
    """

    def __init__(
        self,
        opt: Any,
        initial_loss_scaling_factor: float = ALSDefaults.initial_loss_scaling_factor,
        update_frequency: int = ALSDefaults.update_frequency,
        increase_factor: float = ALSDefaults.increase_factor,
        max_loss_scaling_factor: float = ALSDefaults.max_loss_scaling_factor,
        accumulate_statistics_over_update_period: bool = (
            ALSDefaults.accumulate_statistics_over_update_period
        ),
        ratio_threshold: float = ALSDefaults.ratio_threshold,
        captured_grads_only: bool = ALSDefaults.captured_grads_only,
        lpf_alpha: float = ALSDefaults.lpf_alpha,
        histogram_bin_edge: float = ALSDefaults.histogram_bin_edge,
        name: str = "ALSOptimizer",
    ) -> None:
        arguments = locals()
        settings = {key: arguments[key] for key in SETTING_NAMES}
        check_settings(settings)
        super().__init__(opt, name)
        self._settings = settings
        self._observed = False

    @property
    def loss_scale_factor(self) -> Any:
        """The factor now, under Keras' name."""
        return self.loss_scaling_factor if "inner" in vars(self) else None

    @loss_scale_factor.setter
    def loss_scale_factor(self, factor: float | None) -> None:
        # Keras' LossScaleOptimizer takes the factor of what it wraps away.
        if "inner" in vars(self):
            raise ValueError(
                "The losses would be scaled twice: keras.optimizers.LossScaleOptimizer "
                f"cannot be around {type(self).__name__}. `compile` adds one under "
                "mixed_float16, outside of the scope of an IPU strategy: compile "
                "inside, or with `auto_scale_loss=False`."
            )

    def build(self, variables: Any) -> None:
        """Make the factor and the statistics besides the inner optimizer's state."""
        super().build(variables)
        first = keras.initializers.Constant(self.initial_loss_scaling_factor)
        self._factor = self._scalar("loss_scaling_factor", first)
        self._previous = self._scalar("previous_loss_scaling_factor", first)
        self._updates = self._scalar("update_counter", "zeros", "int32")
        self._histogram = self._bins("gradient_histogram")
        self._retained = self._bins("retained_histogram")

    def _scalar(self, name: str, initializer: Any, dtype: str = "float32") -> Any:
        return self.add_variable((), initializer, dtype, name=name)

    def _bins(self, name: str) -> Any:
        return self.add_variable((2,), "zeros", "float32", name=name)

    @ReadOnly
    def loss_scaling_factor(self) -> Any:
        """By what losses are multiplied now."""
        first = self.initial_loss_scaling_factor
        return tf.convert_to_tensor(self._factor if self.built else float(first))

    @ReadOnly
    def previous_loss_scaling_factor(self) -> Any:
        """The factor before its last change."""
        first = self.initial_loss_scaling_factor
        return tf.convert_to_tensor(self._previous if self.built else float(first))

    @ReadOnly
    def update_counter(self) -> Any:
        """Weight updates since the factor was last chosen."""
        return tf.convert_to_tensor(self._updates if self.built else 0)

    @ReadOnly
    def histogram(self) -> Any:
        """Float16 gradients below the edge, and from it on, in this period."""
        return tf.convert_to_tensor(self._histogram if self.built else [0.0, 0.0])

    @ReadOnly
    def normalized_histogram(self) -> Any:
        """The histogram as shares of all gradients."""
        return histogram_normalize(self.histogram)

    def reset(self) -> None:
        """Start again with the first factor and without statistics."""
        if self.built:
            self._factor.assign(self.initial_loss_scaling_factor)
            self._updates.assign(0)
            for bins in (self._histogram, self._retained):
                bins.assign([0.0, 0.0])

    def get_name(self) -> str:
        """Return the optimizer's name."""
        return str(self.name)

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss whose gradients are to be applied."""
        loss = tf.convert_to_tensor(self.inner.scale_loss(loss))
        return loss * tf.cast(self.loss_scaling_factor, loss.dtype)

    get_scaled_loss = scale_loss

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """Return the gradients of the scaled loss; inside of a graph only."""
        weights = [p if isinstance(p, tf.Variable) else stored(p) for p in params]
        return list(tf.gradients(self.get_scaled_loss(loss), weights))

    def observe_gradients(self, gradients: Sequence[Any]) -> None:
        """Take the float16 gradients of one backward pass into the statistics."""
        for gradient in gradients:
            values = tf.cast(_values(gradient), tf.float32)
            # Not a number counts as too large.
            below = tf.abs(values) < self.histogram_bin_edge
            small = tf.reduce_sum(tf.cast(below, tf.float32))
            total = tf.cast(tf.size(values), tf.float32)
            self._histogram.assign_add(tf.stack([small, total - small]))

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Apply gradients inside without taking them into the statistics again."""
        before, self._observed = self._observed, True
        try:
            yield
        finally:
            self._observed = before

    def observe_applied(self, grads: Any, captured: Mapping[str, Any] | None) -> None:
        """Take the float16 ones of applied and captured gradients into account."""
        if self._observed:
            return
        marked = tf.nest.flatten(list((captured or {}).values()))
        seen = marked if self.captured_grads_only else [*grads, *marked]
        self.observe_gradients(
            [g for g in seen if g is not None and g.dtype == tf.float16]
        )

    def apply_gradients(
        self,
        grads_and_vars: Any,
        captured_grads: Mapping[str, Any] | None = None,
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Unscale the gradients, update the variables, and choose the next factor."""
        del global_step, name
        grads, variables = zip(*grads_and_vars, strict=True)
        self._ensure_built(variables)
        self.observe_applied(grads, captured_grads)
        with self.observed():
            self.apply(grads, variables)
        return self.iterations

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Unscale the gradients, update the variables, and choose the next factor."""
        self._ensure_built(trainable_variables)
        self.observe_applied(grads, None)
        factor = self.loss_scaling_factor
        self.inner.apply([_unscaled(g, factor) for g in grads], trainable_variables)
        self._choose_factor(factor)

    def _choose_factor(self, factor: Any) -> None:
        # As on the device: what is counted are the updates since the last choice, the
        # one that chooses not among them, so that a period is one update longer.
        updates = self.update_counter
        due = updates >= self.update_frequency
        if self.update_frequency == 1:
            due = tf.constant(True)
        alpha = self.lpf_alpha
        gathered = alpha * self._retained + (1.0 - alpha) * self.histogram
        ratio = tf.math.divide_no_nan(gathered[1], tf.reduce_sum(gathered))
        increase = tf.cast(self.increase_factor, tf.float32)
        wanted = tf.where(
            ratio > self.ratio_threshold, factor / increase, factor * increase
        )
        valid = (wanted >= 1.0) & (wanted < self.max_loss_scaling_factor)
        changes = due & valid
        self._previous.assign(
            tf.where(changes, factor, self.previous_loss_scaling_factor)
        )
        self._factor.assign(tf.where(changes, wanted, factor))
        self._updates.assign(tf.where(due, 0, updates + 1))
        self._retained.assign(tf.where(due, gathered, self._retained))
        kept = ~due & self.accumulate_statistics_over_update_period
        self._histogram.assign(tf.where(kept, self.histogram, 0.0))

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {**super().get_config(), **self._settings}


def _unscaled(gradient: Any, factor: Any) -> Any:
    """Return a gradient divided by the factor, in float32 or its wider type."""
    if gradient is None:
        return None
    values = _values(gradient)
    if values.dtype.size < tf.float32.size:
        values = tf.cast(values, tf.float32)
    values /= tf.cast(factor, values.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def _values(gradient: Any) -> Any:
    sparse = isinstance(gradient, tf.IndexedSlices)
    return gradient.values if sparse else tf.convert_to_tensor(gradient)
