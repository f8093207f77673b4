"""A layer call in a graph of its own, with its gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.repeatable_call import RepeatableCall
from ipu_runtime.frameworks.keras_api import keras, tree
from ipu_runtime.frameworks.tensorflow_graphs import FuncGraph


@dataclass(frozen=True)
class CallGraph:
    """A layer call and its gradients in one graph."""

    graph: Any
    inputs: list[Any]
    outputs: list[Any]
    forward_count: int
    input_gradients: list[Any]
    weight_gradients: list[Any]
    problem: str = ""


def build_graph(call: RepeatableCall, batch: int) -> CallGraph:
    """Call a layer and its gradients in a graph of their own, on nothing but shapes."""
    graph = FuncGraph("traced")
    with graph.as_default():
        inputs, weights, outputs = call_in_graph(call, batch, True)
        sources = [tensor for tensor in inputs if tensor.dtype.is_floating]
        count = len(sources)
        sources += weights
        targets = [tensor for tensor in outputs if tensor.dtype.is_floating]
        arriving = [_placeholder(tensor.dtype, tensor.shape) for tensor in targets]
        forward_count = len(graph.get_operations())
        problem, gradients = "", [None] * len(sources)
        try:
            if targets and sources:
                gradients = tf.gradients(targets, sources, grad_ys=arriving)
        except LookupError as error:
            problem = f"no gradient ({error}): counted as twice the forward pass"
    return CallGraph(
        graph,
        inputs,
        outputs,
        forward_count,
        gradients[:count],
        gradients[count:],
        problem,
    )


def call_in_graph(
    call: RepeatableCall, batch: int, training: bool
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return inputs, trained weights and outputs of a call in the current graph.

    Weights are inputs of the graph as well, so that the layer's own are not touched.
    """
    inputs = call.placeholders(batch)
    mapping = [
        (variable, _placeholder(variable.dtype, tuple(variable.shape)))
        for variable in getattr(call.operation, "variables", ())
    ]
    with keras.StatelessScope(mapping, collect_losses=True) as scope:
        results = call.run(inputs, training)
    # What a layer adds to the loss is computed, too, and has a gradient.
    results = [*tree.flatten(results), *(scope.losses if training else ())]
    outputs = [tf.convert_to_tensor(item) for item in results]
    trained = [tensor for variable, tensor in mapping if variable.trainable]
    return inputs, trained, outputs


def needed(operations: Sequence[Any], results: Iterable[Any]) -> list[Any]:
    """Return the operations that results depend on, in order."""
    own = {operation.name for operation in operations}
    found: set[str] = set()
    waiting = [tensor.op for tensor in results]
    while waiting:
        operation = waiting.pop()
        if operation.name in found or operation.name not in own:
            continue
        found.add(operation.name)
        waiting += [tensor.op for tensor in operation.inputs]
    return [operation for operation in operations if operation.name in found]


def operations_before(operation: Any) -> set[str]:
    """Return the names of all operations that run for one, itself among them."""
    found: set[str] = set()
    waiting = [operation]
    while waiting:
        current = waiting.pop()
        if current.name not in found:
            found.add(current.name)
            waiting += [tensor.op for tensor in current.inputs]
            waiting += current.control_inputs
    return found


def _placeholder(dtype: Any, shape: Any) -> Any:
    return tf.compat.v1.placeholder(dtype, shape)
