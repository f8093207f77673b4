"""Let Keras 3 layers behave in graphs as layers did when graphs were the rule."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import mask_of, set_mask
from ipu_runtime.frameworks.keras_state import fresh_layer_names
from ipu_runtime.frameworks.patch_points import layer_call_patch
from ipu_runtime.frameworks.patching import around
from ipu_runtime.frameworks.tensorflow_graphs import wait_for
from ipu_runtime.frameworks.tensorflow_variables import ASSIGNMENTS
from ipu_runtime.frameworks.types import Layer, Operation, Structure, Tensor


@dataclass(frozen=True)
class LayerUse:
    """A layer call that a model function made, outermost layers only."""

    layer: Layer
    inputs: tuple[Tensor, ...]
    """The tensors among its arguments."""
    outputs: tuple[Tensor, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass
class ModelScope:
    """What is noticed while a model function builds its graph."""

    layer_uses: list[LayerUse] = field(default_factory=list)


_scopes: ContextVar[tuple[ModelScope, ...]] = ContextVar("scopes", default=())
"""Those of this thread that notice layer calls, the outermost one first.

Empty inside of a layer's call: what a layer calls in turn is part of it. TensorFlow
traces a function in the thread that calls it, so that no other thread's layers, and no
other thread's depth, is meant.
"""


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
    token = _scopes.set((*_scopes.get(), scope))
    try:
        with _layer_calls.applied(), fresh_layer_names():
            yield scope
    finally:
        _scopes.reset(token)
        if seed is not None:
            random.setstate(random_state)


def _call(original: Any, layer: Layer, *args: Any, **kwargs: Any) -> Structure:
    """Call a layer, and note the call if it is the outermost one of a scope."""
    scopes = _scopes.get()
    if not scopes or tf.executing_eagerly():
        return original(layer, *args, **kwargs)
    tensors = tf.nest.flatten((args, kwargs))
    if any(isinstance(tensor, keras.KerasTensor) for tensor in tensors):
        return original(layer, *args, **kwargs)
    graph = tf.compat.v1.get_default_graph()
    first = len(graph.get_operations())
    token = _scopes.set(())
    try:
        outputs = original(layer, *args, **kwargs)
    finally:
        _scopes.reset(token)
    if graph is tf.compat.v1.get_default_graph():
        outputs = _with_updates(outputs, graph.get_operations()[first:])
    use = LayerUse(
        layer,
        tuple(item for item in tensors if tf.is_tensor(item)),
        tuple(tf.nest.flatten(outputs)),
        args,
        kwargs,
    )
    for scope in scopes:
        scope.layer_uses.append(use)
    return outputs


_layer_calls = layer_call_patch(around(_call))


def _with_updates(outputs: Structure, operations: Sequence[Operation]) -> Structure:
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


def _same(tensor: Tensor) -> Tensor:
    copy = tf.identity(tensor)
    mask = mask_of(tensor)
    if mask is not None:
        set_mask(copy, mask)
    return copy
