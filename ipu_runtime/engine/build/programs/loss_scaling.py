"""How a program and an optimizer that scales losses by itself work together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from ipu_runtime.engine.build.programs.gradient_capture import Captured
from ipu_runtime.frameworks.keras_calls import layers_inside


class LossScaling(Protocol):
    """What an optimizer with automatic loss scaling offers to a program."""

    captured_grads_only: bool

    def observe_gradients(self, gradients: Sequence[Any]) -> None:
        """Take the float16 gradients of one backward pass into the statistics."""

    def observed(self) -> AbstractContextManager[None]:
        """Apply gradients inside without taking them into the statistics again."""


def loss_scaling_of(optimizer: Any) -> LossScaling | None:
    """Return the optimizer with automatic loss scaling that is, or is inside of, it."""
    while optimizer is not None:
        if hasattr(optimizer, "observe_gradients"):
            scaling: LossScaling = optimizer
            return scaling
        optimizer = getattr(optimizer, "inner", None) or getattr(
            optimizer, "inner_optimizer", None
        )
    return None


class ObservedGradients:
    """Shows the float16 gradients of a model to an optimizer that scales losses.

    Weights of layers that compute in float16 have float16 gradients, also where a
    mixed policy keeps the weights themselves, and so the gradients, in float32.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        # Outer layers come first: a weight has the type of the innermost one.
        self._types = {
            id(weight): layer.compute_dtype
            for layer in layers_inside(model)
            for weight in layer.trainable_weights
        }

    @property
    def wanted(self) -> bool:
        """Whether the optimizer scales losses by itself."""
        return self._scaling is not None

    def observe(self, weights: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Count the gradients of some weights, after one backward pass."""
        scaling = self._scaling
        if scaling is None or scaling.captured_grads_only:
            return
        scaling.observe_gradients(
            [
                gradient
                for weight, gradient in zip(weights, gradients, strict=True)
                if gradient is not None and self._types.get(id(weight)) == "float16"
            ]
        )

    def observe_captured(self, captured: Captured) -> None:
        """Count the gradients that layers have marked."""
        if self._scaling is not None:
            self._scaling.observe_gradients(
                [
                    gradient
                    for gradients in captured.values()
                    for gradient in gradients
                    if gradient is not None and gradient.dtype == "float16"
                ]
            )

    def applying(self) -> AbstractContextManager[None]:
        """Apply gradients inside that have been counted already."""
        return nullcontext() if self._scaling is None else self._scaling.observed()

    @property
    def _scaling(self) -> LossScaling | None:
        return loss_scaling_of(getattr(self._model, "optimizer", None))
