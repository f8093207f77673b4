"""The weight update of a pipeline, from what its optimizer function returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ipu_runtime.engine.graph_pipeline import GradientMap, Update
from ipu_runtime.ops.optimizer_function_output import OptimizerFunctionOutput
from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer
from ipu_runtime.optimizers.map_gradient_optimizer import MapGradientOptimizer


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
            lambda pairs: output.opt.apply_gradients(
                pairs, *output.apply_gradients_args, **output.apply_gradients_kwargs
            ),
            _gradient_maps(output.opt),
        )

    return update


def _keras_update(output: OptimizerFunctionOutput) -> Update:
    variables = output.variables
    if variables is None and output.tape is not None:
        variables = output.tape.watched_variables()
    if not variables:
        raise RuntimeError(
            "No variables to optimize: a Keras optimizer needs `variables` or a `tape`."
        )
    by_handle = {variable.handle.name: variable for variable in variables}

    def apply(pairs: list[tuple[Any, Any]]) -> Any:
        before = len(tf.compat.v1.get_default_graph().get_operations())
        output.opt.apply_gradients(
            [(gradient, by_handle[item.handle.name]) for gradient, item in pairs]
        )
        made = tf.compat.v1.get_default_graph().get_operations()[before:]
        return tf.group(*(item for item in made if item.type.startswith("Assign")))

    return Update(output.loss, list(variables), apply)


def _gradient_maps(optimizer: Any) -> list[GradientMap]:
    """Return the functions that wrapping optimizers apply to each gradient."""
    maps: list[GradientMap] = []
    while isinstance(optimizer, IpuOptimizer):
        if isinstance(optimizer, MapGradientOptimizer):
            maps.insert(0, optimizer.gradient_mapping_function)
        optimizer = optimizer.wrapped
    return maps
