"""Scopes that capture gradients: `ipu.eager.backprop`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.gradient_capture import (
    CaptureScope,
    capturing,
    open_captures,
)


def num_gradient_collection_tapes() -> int:
    """Return how many tapes and contexts are open."""
    return open_captures()


class GradientCaptureContext:
    """Captures gradients of what `capture_upstream_gradients` has marked inside."""

    def __init__(self) -> None:
        self._sink: CaptureScope | None = None
        self._scope = ExitStack()

    def __enter__(self) -> Any:
        self._sink = self._scope.enter_context(capturing())
        return self

    def __exit__(self, *reason: Any) -> None:
        self._scope.close()

    @property
    def captured_gradients(self) -> dict[str, list[Any]] | None:
        """The gradients that were captured, by tag; None before the scope."""
        return None if self._sink is None else self._sink.gradients

    @captured_gradients.setter
    def captured_gradients(self, value: Any) -> None:
        raise ValueError("captured_gradients is read only.")


class GradientCaptureTape(tf.GradientTape, GradientCaptureContext):
    """A `tf.GradientTape` that captures gradients too."""

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True
    ) -> None:
        tf.GradientTape.__init__(self, persistent, watch_accessed_variables)
        GradientCaptureContext.__init__(self)

    def __enter__(self) -> Any:
        tf.GradientTape.__enter__(self)
        return GradientCaptureContext.__enter__(self)

    def __exit__(self, *reason: Any) -> None:
        GradientCaptureContext.__exit__(self, *reason)
        tf.GradientTape.__exit__(self, *reason)
