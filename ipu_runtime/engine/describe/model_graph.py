"""A Keras model as a flat list of layer calls that can be run one after the other."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.describe.model_options import LayerCall
from ipu_runtime.engine.numerics.half_emulation import current_emulation
from ipu_runtime.frameworks.keras_api import keras, tree
from ipu_runtime.frameworks.keras_calls import (
    Functional,
    calling,
    entered,
    layer_behind,
    network_of_sequential,
    nodes_in_order,
    nodes_of,
    standardized_inputs,
)


class NotAGraphError(ValueError):
    """The model's calls cannot be told apart without running it as a whole."""


@dataclass(frozen=True)
class Call:
    """One call of a layer, in a model or in a model nested in it."""

    key: LayerCall
    operation: Any
    node_index: int
    """Index of the call among all calls of the layer, in whatever model."""
    arguments: Any
    """Keras' symbolic arguments."""
    slots: Mapping[int, int]
    """Number of the value that stands for a symbolic tensor, by its identity."""
    inputs: tuple[int, ...]
    """Numbers of the values that it takes."""
    outputs: tuple[int, ...]
    """Numbers of the values that it makes."""
    draw_index: int
    """How many calls of the same layer come before it; keeps random draws apart."""

    @property
    def name(self) -> str:
        """Unique readable name: that of the layer, where it is called only once."""
        return "/".join(
            name if index == 0 else f"{name}_call{index}" for name, index in self.key
        )

    def run(self, values: Mapping[int, Any], training: bool | None) -> list[Any]:
        """Call the layer on the values it takes, and return those it makes."""
        filled = {
            id(symbol): values[self.slots[id(symbol)]]
            for symbol in self.arguments.keras_tensors
        }
        args, kwargs = self.arguments.fill_in(filled)
        function = calling(self.operation, training)
        return list(tree.flatten(function(*args, **kwargs)))


@dataclass(frozen=True)
class ModelGraph:
    """All layer calls of a model, inputs left out, each after what it needs."""

    network: Any
    """The Functional model that knows the inputs' structure."""
    calls: tuple[Call, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_names: tuple[str, ...]

    def flat_inputs(self, x: Any) -> list[Any]:
        """Return the input tensors in the order of `inputs`."""
        return standardized_inputs(self.network, x)

    def pack_outputs(self, values: Mapping[int, Any]) -> Any:
        """Return what the model returns."""
        flat = [values[slot] for slot in self.outputs]
        packed = tree.pack_sequence_as(self.network.output, flat)
        if isinstance(packed, (list, tuple)) and len(packed) == 1:
            return packed[0]
        return packed

    def run(
        self,
        calls: Sequence[Call],
        values: dict[int, Any],
        training: bool | None,
        before_call: Callable[[Call], None] = lambda call: None,
    ) -> None:
        """Run some calls, adding what they make to `values`."""
        with entered(self.network):
            emulation = current_emulation()
            for call in calls:
                before_call(call)
                if emulation is not None:
                    place = next(i for i, item in enumerate(self.calls) if item is call)
                    emulation.draws.at(place)
                values.update(
                    zip(call.outputs, call.run(values, training), strict=True)
                )


def model_graph(model: Any) -> ModelGraph:
    """Read the layer calls of a built model; a subclassed one must be traced first."""
    network = network_of(model)
    if network is None:
        raise NotAGraphError(
            f"the calls of {model.name} ({type(model).__name__}) are not known: it is "
            "neither Functional nor Sequential"
        )
    return _Reader().read(network)


def traced_network(model: Any, x: Any) -> Any:
    """Return a Functional model of the layer calls that a subclassed model makes.

    Args:
        x: symbolic or real inputs; only shapes and types matter.
    """
    symbols = tree.map_structure(
        lambda value: keras.Input(
            batch_shape=tuple(value.shape),
            dtype=keras.backend.standardize_dtype(value.dtype),
        ),
        x,
    )
    with warnings.catch_warnings():
        # Keys of a dict are no names of layers here.
        warnings.simplefilter("ignore", UserWarning)
        return keras.Model(symbols, model.call(symbols), name=model.name)


def network_of(model: Any) -> Any | None:
    """Return the Functional model that `model` is or has inside, if there is one."""
    if isinstance(model, keras.Sequential):
        return network_of_sequential(model)
    return model if isinstance(model, Functional) else None


def runs_as_written(model: Any) -> bool:
    """Whether the model's `call` is Keras' own, so that its graph is what it does."""
    own = {Functional.call, keras.Sequential.call}
    return network_of(model) is not None and type(model).call in own


class _Reader:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.draws: Counter[int] = Counter()
        self.next_slot = 0

    def read(self, network: Any) -> ModelGraph:
        slots = {id(symbol): self._new_slot() for symbol in network.inputs}
        inputs = tuple(slots[id(symbol)] for symbol in network.inputs)
        self._walk(network, (), slots)
        return ModelGraph(
            network=network,
            calls=tuple(self.calls),
            inputs=inputs,
            outputs=tuple(slots[id(symbol)] for symbol in network.outputs),
            input_names=tuple(layer_behind(symbol).name for symbol in network.inputs),
        )

    def _new_slot(self) -> int:
        self.next_slot += 1
        return self.next_slot - 1

    def _walk(self, network: Any, path: LayerCall, slots: dict[int, int]) -> None:
        """Add the calls of `network`; `slots` grows by the values that they make."""
        seen: Counter[int] = Counter()
        for node in nodes_in_order(network):
            operation = node.operation
            key = (*path, (operation.name, seen[id(operation)]))
            seen[id(operation)] += 1
            if expandable(node):
                self._walk_nested(node, key, slots)
            else:
                self._add(node, key, slots)

    def _walk_nested(self, node: Any, key: LayerCall, slots: dict[int, int]) -> None:
        inner = network_of(node.operation)
        assert inner is not None
        inner_slots = {
            id(inside): slots[id(outside)]
            for inside, outside in zip(
                inner.inputs, node.arguments.keras_tensors, strict=True
            )
        }
        self._walk(inner, key, inner_slots)
        for outside, inside in zip(node.outputs, inner.outputs, strict=True):
            slots[id(outside)] = inner_slots[id(inside)]

    def _add(self, node: Any, key: LayerCall, slots: dict[int, int]) -> None:
        operation = node.operation
        symbols = node.arguments.keras_tensors
        taken = {id(symbol): slots[id(symbol)] for symbol in symbols}
        made = tuple(self._new_slot() for _ in node.outputs)
        slots.update(
            (id(symbol), slot) for symbol, slot in zip(node.outputs, made, strict=True)
        )
        self.calls.append(
            Call(
                key=key,
                operation=operation,
                node_index=nodes_of(operation).index(node),
                arguments=node.arguments,
                slots=taken,
                inputs=tuple(dict.fromkeys(taken.values())),
                outputs=made,
                draw_index=self.draws[id(operation)],
            )
        )
        self.draws[id(operation)] += 1


def expandable(node: Any) -> bool:
    """Whether a call is that of a nested model whose own calls can be run instead."""
    operation = node.operation
    if not isinstance(operation, keras.Model) or not runs_as_written(operation):
        return False
    network = network_of(operation)
    assert network is not None
    given = dict(node.arguments.kwargs)
    if given.get("training") is False:
        # What a model is called with inside another gives way to what that one does.
        del given["training"]
    plain = all(value is None for value in given.values())
    return plain and len(node.arguments.keras_tensors) == len(network.inputs)
