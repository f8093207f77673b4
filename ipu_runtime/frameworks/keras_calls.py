"""How Keras keeps the layer calls of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from keras.src.backend import get_keras_mask, set_keras_mask
from keras.src.models.functional import Functional as Functional
from keras.src.models.functional import operation_fn
from keras.src.models.model import functional_init_arguments

from ipu_runtime.frameworks.keras_api import keras


def makes_functional(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether these arguments let `keras.Model` make a Functional model."""
    if not functional_init_arguments(args, kwargs):
        return False
    # A subclass may have two arguments that are something else.
    inputs = keras.tree.flatten(args[0] if args else kwargs["inputs"])
    return all(isinstance(symbol, keras.KerasTensor) for symbol in inputs)


def network_of_sequential(model: Any) -> Any | None:
    """Return the Functional model inside a Sequential one, if it can have one yet."""
    if model._functional is None and model.layers:
        model._maybe_rebuild()
    return model._functional


def nodes_in_order(network: Any) -> list[Any]:
    """Return the layer calls of a Functional model as they run, inputs left out."""
    return [
        node
        for depth in sorted(network._nodes_by_depth, reverse=True)
        for node in network._nodes_by_depth[depth]
        if node.operation and not node.is_input
    ]


def nodes_of(layer: Any) -> list[Any]:
    """Return all calls of a layer, in whatever model."""
    return list(layer._inbound_nodes)


def layer_behind(symbol: Any) -> Any:
    """Return the layer that has made a symbolic tensor."""
    return symbol._keras_history.operation


def standardized_inputs(network: Any, x: Any) -> list[Any]:
    """Return inputs as the flat tensors that a Functional model calls its layers on."""
    return list(network._standardize_inputs(x))


def calling(operation: Any, training: bool | None) -> Callable[..., Any]:
    """Return a function that calls a layer, in training or not if it wants to know."""
    function: Callable[..., Any] = operation_fn(operation, training=training)
    return function


def mask_of(tensor: Any) -> Any | None:
    """Return the mask that layers pass on with a tensor, if there is one."""
    return get_keras_mask(tensor)


def set_mask(tensor: Any, mask: Any) -> None:
    """Let layers find a mask with a tensor."""
    set_keras_mask(tensor, mask)


def takes_training(layer: Any) -> bool:
    """Whether a layer's `call` has a `training` argument."""
    return bool(layer._call_has_training_arg)


@contextmanager
def entered(model: Any) -> Iterator[Any]:
    """Run layers as parts of `model`, so that they keep each other's losses."""
    context = model._get_call_context()
    try:
        yield context
    finally:
        model._maybe_reset_call_context()


def layers_inside(operation: Any) -> list[Any]:
    """Return a layer and all layers that it has inside; nothing for an operation."""
    flatten = getattr(operation, "_flatten_layers", None)
    return list(flatten()) if flatten else []


def shapes_built_for(model: Any) -> list[tuple[int | None, ...]]:
    """Return the input shapes that a model was built for; none if it is not built."""
    shapes: list[tuple[int | None, ...]] = []
    for built_for in (getattr(model, "_build_shapes_dict", None) or {}).values():
        keras.tree.map_shape_structure(
            lambda shape: shapes.append(tuple(shape)), built_for
        )
    return shapes
