"""Let Keras 3 layers behave in graphs as layers did when graphs were the rule."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import mask_of, set_mask
from ipu_runtime.frameworks.keras_state import fresh_layer_names
from ipu_runtime.frameworks.tensorflow_graphs import wait_for
from ipu_runtime.frameworks.tensorflow_variables import ASSIGNMENTS


@dataclass(frozen=True)
class LayerUse:
    """A layer call that a model function made, outermost layers only."""

    layer: Any
    inputs: tuple[Any, ...]
    """The tensors among its arguments."""
    outputs: tuple[Any, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass
class ModelScope:
    """What is noticed while a model function builds its graph."""

    layer_uses: list[LayerUse] = field(default_factory=list)


@contextmanager
def model_scope(seed: int | None = None) -> Iterator[ModelScope]:
    """Build a model in the current graph, so that a second graph is built alike.

    Layer names start anew, because checkpoints know variables by name. With a seed the
    initial weights and dropout are reproducible. What a layer writes to its own
    variables (batch-norm statistics, dropout's counter) happens whenever its output
    is used.
    """
    scope = ModelScope()
    random_state = random.getstate()
    if seed is not None:
        random.seed(seed)
    original = keras.layers.Layer.__call__
    keras.layers.Layer.__call__ = _noticing(original, scope)
    try:
        with fresh_layer_names():
            yield scope
    finally:
        keras.layers.Layer.__call__ = original
        if seed is not None:
            random.setstate(random_state)


def _noticing(original: Callable[..., Any], scope: ModelScope) -> Callable[..., Any]:
    depth = 0

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        tensors = tf.nest.flatten((args, kwargs))
        symbolic = any(isinstance(tensor, keras.KerasTensor) for tensor in tensors)
        if depth or symbolic or tf.executing_eagerly():
            return original(layer, *args, **kwargs)
        graph = tf.compat.v1.get_default_graph()
        first = len(graph.get_operations())
        depth += 1
        try:
            outputs = original(layer, *args, **kwargs)
        finally:
            depth -= 1
        if graph is tf.compat.v1.get_default_graph():
            outputs = _with_updates(outputs, graph.get_operations()[first:])
        scope.layer_uses.append(
            LayerUse(
                layer,
                tuple(item for item in tensors if tf.is_tensor(item)),
                tuple(tf.nest.flatten(outputs)),
                args,
                kwargs,
            )
        )
        return outputs

    return call


def _with_updates(outputs: Any, operations: Sequence[Any]) -> Any:
    """Make outputs wait for the writes among `operations`, and those for reads."""
    writes = [operation for operation in operations if operation.type in ASSIGNMENTS]
    if writes:
        # A layer that is built by its first call also makes its initial values here.
        initial = {item.initializer.name for item in tf.compat.v1.global_variables()}
        writes = [write for write in writes if write.name not in initial]
    if not writes:
        return outputs
    for write in writes:
        earlier = operations[: operations.index(write)]
        reads = [
            read
            for read in earlier
            if read.type == "ReadVariableOp" and read.inputs[0] is write.inputs[0]
        ]
        wait_for(write, reads)
    with tf.control_dependencies(writes):
        return tf.nest.map_structure(_same, outputs)


def _same(tensor: Any) -> Any:
    copy = tf.identity(tensor)
    mask = mask_of(tensor)
    if mask is not None:
        set_mask(copy, mask)
    return copy
