"""How the gradients of the micro-batches of one weight update become one gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod


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

    @property
    def total(self) -> int:
        """Micro-batches of one update over all replicas."""
        return self.micro_batches * self.replicas

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
            else before(accumulator)
            + share(tf.cast(tf.convert_to_tensor(gradient), accumulator.dtype))
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
        if self.method is methods.SUM:
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
        if self.dtype is None:
            return weight.dtype
        return self.dtype(weight) if callable(self.dtype) else self.dtype
