"""A TensorFlow function that chooses its executor when it sees its first arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.executor_choice import (
    choose_executor,
    graph_executor,
)
from ipu_runtime.engine.build.programs.tracing import traced


class ChosenFunction:
    """Runs Python code in TensorFlow, compiled by XLA where that is faster."""

    def __init__(self, function: Callable[..., Any], refused: str) -> None:
        """Take the code, and why it must not be compiled, if it must not."""
        self._in_graph = traced(function)
        # Traced by itself: gradients of loops look otherwise where XLA compiles them.
        self._compiled = traced(function, jit_compile=True)
        self.choice = graph_executor(refused) if refused else None
        """None until the first call."""

    def __call__(self, *args: Any) -> Any:
        """Run it."""
        if self.choice is None:
            return self._first(*args)
        return (self._compiled if self.choice.compiled else self._in_graph)(*args)

    def _first(self, *args: Any) -> Any:
        choice = choose_executor(self._in_graph.get_concrete_function(*args).graph)
        self.choice = choice
        if choice.compiled:
            try:
                return self._compiled(*args)
            except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
                # XLA refuses before anything has happened: every time or never.
                self.choice = graph_executor("XLA cannot compile it")
        return self._in_graph(*args)
