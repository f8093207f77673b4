"""How the gradients of the micro-batches of one weight update become one gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.model_options import (
    GradientAccumulationReductionMethod,
)
from ipu_runtime.engine.numerics.half_operations import half_sum
from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class Accumulation:
    """Sums gradients over replicas, and over micro-batches by the chosen method.

    Replicas are always summed: the loss is not divided by their number.
    """

    method: GradientAccumulationReductionMethod
    micro_batches: int
    """Per replica and update."""
    replicas: int
    dtype: Any = None
    """Type of the accumulators or a function from weight to type; None: as weights."""
    instance: Instance = field(default_factory=Instance)
    """This process among those that train together; each has as many replicas."""

    @property
    def total(self) -> int:
        """Micro-batches of one update over all replicas of this process."""
        return self.micro_batches * self.replicas

    def counter(self, updates: Any, index: Any) -> Any:
        """Return the number of a micro-batch, over all updates, replicas, processes.

        Args:
            updates: weight updates before it, 64 bits wide.
            index: as `add` takes it.
        """
        if tf.is_tensor(index):
            index = tf.cast(index, tf.int64)
        count = self.instance.count
        if count > 1:
            others = index // self.replicas * (count - 1) + self.instance.index
            index += others * self.replicas
        return updates * (self.total * count) + index

    def zeros(self, weights: Sequence[Any]) -> list[Any]:
        """Return empty accumulators."""
        return [tf.zeros(weight.shape, self.type_for(weight)) for weight in weights]

    def add(
        self, accumulators: Sequence[Any], gradients: Sequence[Any], index: Any
    ) -> list[Any]:
        """Return the accumulators after one more micro-batch.

        Args:
            index: number of the micro-batch in its update, replicas running fastest.
        """
        before, share = self._factors(index)
        return [
            accumulator
            if gradient is None
            else half_sum(
                before(accumulator),
                share(tf.cast(tf.convert_to_tensor(gradient), accumulator.dtype)),
            )
            for accumulator, gradient in zip(accumulators, gradients, strict=True)
        ]

    def first(self, gradients: Sequence[Any]) -> list[Any]:
        """Return the accumulators after a replica's first micro-batch."""
        methods = GradientAccumulationReductionMethod
        share = self.micro_batches if self.method is methods.MEAN else 1
        return [
            None
            if gradient is None
            else tf.convert_to_tensor(gradient) / share
            if share > 1
            else tf.convert_to_tensor(gradient)
            for gradient in gradients
        ]

    def _factors(self, index: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        methods = GradientAccumulationReductionMethod
        if self.method.sums:
            return (lambda value: value), (lambda value: value)
        if self.method is methods.MEAN:
            return (lambda value: value), (lambda value: value / self.micro_batches)
        done = index // self.replicas
        first_replica = tf.equal(index % self.replicas, 0)

        def shrink(value: Any) -> Any:
            seen = tf.cast(done, value.dtype)
            return value * tf.where(first_replica, seen / (seen + 1), 1)

        return shrink, lambda value: value / (tf.cast(done, value.dtype) + 1)

    def type_for(self, weight: Any) -> Any:
        """Return the type of a weight's accumulator."""
        return chosen_dtype(self.dtype, weight)


def chosen_dtype(dtype: Any, tensor: Any) -> Any:
    """Return the type that a type, its name or a function of a tensor stands for.

    None stands for the tensor's own. NumPy's types can be called too, but are types.
    """
    is_function = callable(dtype) and not isinstance(dtype, type | tf.DType)
    chosen = dtype(tensor) if is_function else dtype
    return tf.as_dtype(tensor.dtype if chosen is None else chosen)
