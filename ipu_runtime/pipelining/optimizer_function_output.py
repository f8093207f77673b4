"""What a pipeline's optimizer function returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.eager.backprop import GradientCaptureContext, GradientCaptureTape
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue


class OptimizerFunctionOutput:
    """An optimizer and the loss that it minimises."""

    def __init__(
        self,
        opt: Any,
        loss: Any,
        compute_gradients_args: tuple[Any, ...] | None = None,
        compute_gradients_kwargs: Mapping[str, Any] | None = None,
        apply_gradients_args: tuple[Any, ...] | None = None,
        apply_gradients_kwargs: Mapping[str, Any] | None = None,
        variables: Sequence[Any] | None = None,
        tape: Any = None,
        gradient_capture_context: Any = None,
        captured_gradient_outfeed: Any = None,
    ) -> None:
        keras_optimizer = isinstance(opt, keras.optimizers.Optimizer)
        if not keras_optimizer and not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise TypeError(
                "`opt` must be a tf.compat.v1.train.Optimizer or a Keras optimizer, "
                f"but is {opt!r}."
            )
        if not isinstance(loss, tf.Tensor):
            raise TypeError(f"`loss` must be a Tensor, but is {loss!r}.")
        for name, value, kind in (
            ("compute_gradients_args", compute_gradients_args, tuple),
            ("compute_gradients_kwargs", compute_gradients_kwargs, dict),
            ("apply_gradients_args", apply_gradients_args, tuple),
            ("apply_gradients_kwargs", apply_gradients_kwargs, dict),
            ("variables", variables, (list, tuple)),
            ("tape", tape, tf.GradientTape),
            (
                "gradient_capture_context",
                gradient_capture_context,
                GradientCaptureContext,
            ),
            ("captured_gradient_outfeed", captured_gradient_outfeed, IPUOutfeedQueue),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"`{name}` has the wrong type: {value!r}.")
        if keras_optimizer and (compute_gradients_args or compute_gradients_kwargs):
            raise ValueError(
                "Arguments for compute_gradients need a tf.compat.v1 optimizer."
            )
        if not keras_optimizer and (variables is not None or tape is not None):
            raise ValueError("`variables` and `tape` need a Keras optimizer.")
        if variables is not None and tape is not None:
            raise ValueError("Only one of `variables` and `tape` may be given.")
        if tape is not None and gradient_capture_context is not None:
            raise ValueError("`tape` and a gradient capture exclude each other.")
        captures = isinstance(tape, GradientCaptureTape) or gradient_capture_context
        if captured_gradient_outfeed is not None and not captures:
            raise ValueError(
                "`captured_gradient_outfeed` needs a `gradient_capture_context`, or a "
                "`tape` that is a GradientCaptureTape."
            )
        self.opt = opt
        self.loss = loss
        self.compute_gradients_args = compute_gradients_args or ()
        self.compute_gradients_kwargs = dict(compute_gradients_kwargs or {})
        self.apply_gradients_args = apply_gradients_args or ()
        self.apply_gradients_kwargs = dict(apply_gradients_kwargs or {})
        self.variables = variables
        self.tape = tape
        self.gradient_capture_context = gradient_capture_context
        self.captured_gradient_outfeed = captured_gradient_outfeed
