"""The weight update of a pipeline, from what its optimizer function returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_pipeline import GradientMap, Update
from ipu_runtime.engine.build.programs.gradient_capture import Captured, arguments_for
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer, check_gradient_types
from ipu_runtime.optimizers.map_gradient_optimizer import MapGradientOptimizer
from ipu_runtime.pipelining.optimizer_function_output import OptimizerFunctionOutput


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
