"""The weight update of a pipeline, from what its optimizer function returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.eager.backprop import GradientCaptureContext, GradientCaptureTape
from ipu_runtime.engine.build.pipeline.graph_pipeline import GradientMap, Update
from ipu_runtime.engine.build.programs.gradient_capture import Captured, arguments_for
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer, check_gradient_types
from ipu_runtime.optimizers.map_gradient_optimizer import MapGradientOptimizer


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


def update_of(
    optimizer_function: Callable[..., OptimizerFunctionOutput],
) -> Callable[[Any], Update]:
    """Return what builds the update from the outputs of the last stage."""

    def update(outputs: Any) -> Update:
        arguments = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        output = optimizer_function(*arguments)
        if not isinstance(output, OptimizerFunctionOutput):
            raise TypeError(
                "`optimizer_function` must return an OptimizerFunctionOutput, but "
                f"returned {output!r}."
            )
        if isinstance(output.opt, keras.optimizers.Optimizer):
            return _keras_update(output)
        variables = output.compute_gradients_kwargs.get("var_list")
        return Update(
            output.loss,
            variables or tf.compat.v1.trainable_variables(),
            lambda pairs, captured: _apply(output, pairs, captured),
            _gradient_maps(output.opt),
        )

    return update


def _apply(
    output: OptimizerFunctionOutput, pairs: list[tuple[Any, Any]], captured: Captured
) -> Any:
    check_gradient_types(output.opt, pairs)
    updated = output.opt.apply_gradients(
        pairs,
        *output.apply_gradients_args,
        **output.apply_gradients_kwargs,
        **arguments_for(output.opt, captured),
    )
    return tf.group(updated, *_enqueue(output, captured))


def _enqueue(output: OptimizerFunctionOutput, captured: Captured) -> list[Any]:
    outfeed = output.captured_gradient_outfeed
    return [outfeed.enqueue_more(captured)] if captured and outfeed is not None else []


def _keras_update(output: OptimizerFunctionOutput) -> Update:
    variables = output.variables
    if variables is None and output.tape is not None:
        variables = output.tape.watched_variables()
    if not variables:
        raise RuntimeError(
            "No variables to optimize: a Keras optimizer needs `variables` or a `tape`."
        )
    by_handle = {id(variable.handle): variable for variable in variables}

    def apply(pairs: list[tuple[Any, Any]], captured: Captured) -> Any:
        if not output.opt.built:
            # A function's variables get their first values before its micro-batches.
            with tf.control_dependencies(None):
                output.opt.build(list(variables))
        before = len(tf.compat.v1.get_default_graph().get_operations())
        output.opt.apply_gradients(
            [(gradient, by_handle[id(item.handle)]) for gradient, item in pairs],
            **arguments_for(output.opt, captured),
        )
        made = tf.compat.v1.get_default_graph().get_operations()[before:]
        assigned = [item for item in made if item.type.startswith("Assign")]
        return tf.group(*assigned, *_enqueue(output, captured))

    return Update(output.loss, list(variables), apply)


def _gradient_maps(optimizer: Any) -> list[GradientMap]:
    """Return the functions that wrapping optimizers apply to each gradient."""
    maps: list[GradientMap] = []
    while isinstance(optimizer, IpuOptimizer):
        if isinstance(optimizer, MapGradientOptimizer):
            maps.insert(0, optimizer.gradient_mapping_function)
        optimizer = optimizer.wrapped
    return maps
