"""Layer calls that can be made again, on other tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.model_graph import Call
from ipu_runtime.engine.describe.model_scope import LayerUse
from ipu_runtime.frameworks.keras_api import keras, tree
from ipu_runtime.frameworks.keras_calls import calling, nodes_of, takes_training
from ipu_runtime.plan.model.model_spec import Shape


@dataclass(frozen=True)
class RepeatableCall:
    """A layer call with what it took and made, of which only shapes matter."""

    operation: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    run: Callable[[Sequence[Any], bool], Any]
    """Makes the call on tensors in the place of its inputs, in training or not."""

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shapes that it takes, without the batch."""
        return tuple(_sample_shape(tensor) for tensor in self.inputs)

    @property
    def output_shapes(self) -> tuple[Shape, ...]:
        """The shapes that it makes, without the batch."""
        return tuple(_sample_shape(tensor) for tensor in self.outputs)

    def placeholders(self, batch: int) -> list[Any]:
        """Return inputs for the current graph, at some batch size.

        They have the type that the layer computes in, as the layer before it does.
        """
        casts = getattr(self.operation, "autocast", False)
        placeholders = []
        for tensor, shape in zip(self.inputs, self.input_shapes, strict=True):
            dtype = tf.as_dtype(tensor.dtype)
            if casts and dtype.is_floating:
                dtype = tf.as_dtype(self.operation.compute_dtype)
            extents = (batch, *shape) if len(tensor.shape) else ()
            placeholders.append(tf.compat.v1.placeholder(dtype, extents))
        return placeholders


def call_of_node(call: Call) -> RepeatableCall:
    """Return a call of a Functional model."""
    symbols = tuple(call.arguments.keras_tensors)
    node = nodes_of(call.operation)[call.node_index]

    def run(tensors: Sequence[Any], training: bool) -> Any:
        filled = dict(zip(map(id, symbols), tensors, strict=True))
        args, kwargs = call.arguments.fill_in(filled)
        return calling(call.operation, training)(*args, **kwargs)

    return RepeatableCall(call.operation, symbols, tuple(node.outputs), run)


def call_of_use(use: LayerUse) -> RepeatableCall:
    """Return a call that a model function made in a graph."""

    def run(tensors: Sequence[Any], training: bool) -> Any:
        given = dict(zip(map(id, use.inputs), tensors, strict=True))
        args, kwargs = tf.nest.map_structure(
            lambda item: given.get(id(item), item), (use.args, dict(use.kwargs))
        )
        if takes_training(use.layer):
            kwargs["training"] = training
        return use.layer(*args, **kwargs)

    return RepeatableCall(use.layer, use.inputs, use.outputs, run)


def call_of_model(model: Any, x: Any) -> RepeatableCall:
    """Return the call of a whole model on tensors like `x`; ValueError if it fails."""
    specs = tree.map_structure(
        lambda spec: keras.KerasTensor(
            tuple(spec.shape), keras.backend.standardize_dtype(spec.dtype)
        ),
        x,
    )

    def run(tensors: Sequence[Any], training: bool) -> Any:
        packed = tree.pack_sequence_as(specs, list(tensors))
        return calling(model, training)(packed)

    try:
        made = model.compute_output_spec(specs)
    except Exception as error:  # `call` may raise anything
        hidden = f"the layer calls of {type(model).__name__} are hidden in its `call`"
        raise ValueError(hidden) from error
    return RepeatableCall(
        model, tuple(tree.flatten(specs)), tuple(tree.flatten(made)), run
    )


def _sample_shape(tensor: Any) -> Shape:
    # Older scripts have extents that are objects, which are no keys and no JSON.
    extents = tuple(tf.TensorShape(tensor.shape).as_list())
    return tuple(extent or 1 for extent in extents[1:])
