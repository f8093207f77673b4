"""Gradients that are noted down where they pass, under a tag.

`capture` marks tensors in the forward pass; whoever computes gradients opens a
`capturing` scope and finds in it what has passed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_calls import layers_inside

Captured = dict[str, list[Any]]
"""The gradients of the tensors that were marked together, by their tag."""


@dataclass
class CaptureScope:
    """Where captured gradients go."""

    graph: Any
    gradients: Captured = field(default_factory=dict)

    def take(self, tag: str, gradients: Sequence[Any]) -> None:
        """Note gradients down."""
        if tag in self.gradients:
            raise ValueError(
                f"A gradient with the tag {tag!r} has been captured already: each tag "
                "can be used once."
            )
        if tf.compat.v1.get_default_graph() is not self.graph:
            raise NotImplementedError(
                f"The gradient with the tag {tag!r} passes inside of a loop, a "
                "condition or another function, from where it cannot be captured."
            )
        self.gradients[tag] = list(gradients)


_open: ContextVar[tuple[CaptureScope, ...]] = ContextVar("open", default=())


@contextmanager
def capturing() -> Iterator[CaptureScope]:
    """Note down the gradients that are computed inside."""
    captures = CaptureScope(tf.compat.v1.get_default_graph())
    token = _open.set((*_open.get(), captures))
    try:
        yield captures
    finally:
        _open.reset(token)


def open_captures() -> int:
    """Return how many scopes are open."""
    return len(_open.get())


def capture(tensors: Any, tag: str) -> Any:
    """Return the tensors; their gradients are noted down under the tag."""
    flat = [tf.convert_to_tensor(item) for item in tf.nest.flatten(tensors)]
    outer = _open.get()[-1:]

    @tf.custom_gradient
    def identity(*values: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            # Gradients may be computed after the scope of the forward pass is closed.
            scopes = _open.get()[-1:] or outer
            if not scopes:
                raise RuntimeError(
                    "capture_upstream_gradients may only be used within the context of "
                    "ipu.eager.backprop.GradientCaptureTape or GradientCaptureContext."
                )
            scopes[0].take(tag, upstream)
            return upstream

        return [tf.identity(value) for value in values], gradient

    return tf.nest.pack_sequence_as(tensors, list(identity(*flat)))


def captures_gradients(layer: Any) -> bool:
    """Tell whether a Keras layer, or one inside of it, captures gradients."""
    return any(
        getattr(item, "captures_gradients", False) for item in layers_inside(layer)
    )


def arguments_for(optimizer: Any, captured: Mapping[str, Any]) -> dict[str, Any]:
    """Return captured gradients as `apply_gradients` of an optimizer takes them."""
    takes = "captured_grads" in inspect.signature(optimizer.apply_gradients).parameters
    if captured and (takes or getattr(optimizer, "supports_captured_grads", False)):
        return {"captured_grads": dict(captured)}
    return {}


def reduced_over(
    micro_batches: Sequence[Captured],
    combine: Callable[[list[Any] | None, list[Any], int], list[Any]] | None,
) -> Captured:
    """Return one gradient for all micro-batches: combined, or those of the last."""
    if combine is None or not micro_batches:
        return dict(micro_batches[-1]) if micro_batches else {}
    result: Captured = {}
    for tag in micro_batches[0]:
        total: list[Any] | None = None
        for index, captured in enumerate(micro_batches):
            total = combine(total, captured[tag], index)
        result[tag] = total or []
    return result
