"""A model as the plan sees it: layer calls in topological order, with their shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ipu_runtime.plan.model.operations import TracedWork

Shape = tuple[int, ...]
"""A tensor's shape without the batch dimension."""


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer call as a preset or a Keras model states it."""

    name: str
    kind: str
    """Keras class name, for example `Conv2D`; `Input` for an input."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Constructor arguments under Keras' own names."""
    inputs: tuple[str, ...] = ()
    """Names of the layers whose outputs it takes."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A variable of a layer."""

    name: str
    shape: Shape
    trainable: bool = True
    shared: bool = False
    """Whether an earlier call of the model has it already."""

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer call with everything that follows from its shapes."""

    spec: LayerSpec
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    weights: tuple[Weight, ...] = ()
    flops: int = 0
    """Multiply-adds times two, forward, for one sample."""
    traced: TracedWork | None = None
    """What it does, if its kind has no cost of its own."""
    weights_of: str = ""
    """Name of the first of the calls that it shares weights with, if not itself."""

    @property
    def name(self) -> str:
        """Name of the layer call, unique in the model."""
        return self.spec.name

    @property
    def kind(self) -> str:
        """Keras class name."""
        return self.spec.kind

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the layers whose outputs it takes."""
        return self.spec.inputs

    @property
    def own_weights(self) -> tuple[Weight, ...]:
        """What it adds to the model's weights: those that no earlier call has."""
        return tuple(weight for weight in self.weights if not weight.shared)

    @property
    def parameters(self) -> int:
        """Number of trainable and other weight values that it adds."""
        return sum(weight.size for weight in self.weights if not weight.shared)

    @property
    def trained(self) -> int:
        """Number of trainable weight values that it adds."""
        return sum(weight.size for weight in self.own_weights if weight.trainable)

    @property
    def output_size(self) -> int:
        """Values of one sample's output."""
        return math.prod(self.output_shape)


@dataclass(frozen=True)
class ModelSpec:
    """The layers of a model, inputs first, each after what it needs."""

    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]
    dtype: str = "float32"
    """What it computes in."""
    weight_dtype: str = ""
    """What its weights are kept in, if that is another, as with a mixed policy."""

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        # Settings are mappings; names and type tell models apart well enough here.
        return hash((tuple(layer.name for layer in self.layers), self.dtype))

    @functools.cached_property
    def input_layers(self) -> tuple[Layer, ...]:
        """The `Input` layers; they have no stage of their own."""
        return tuple(layer for layer in self.layers if layer.kind == "Input")

    @functools.cached_property
    def stage_layers(self) -> tuple[Layer, ...]:
        """The layers that can be assigned to a pipeline stage, in order."""
        return tuple(layer for layer in self.layers if layer.kind != "Input")

    @functools.cached_property
    def order(self) -> tuple[int, ...]:
        """Positions in `stage_layers` in the order that the graph alone decides.

        Every output is followed back to the inputs, first inputs first.
        """
        position = {layer.name: at for at, layer in enumerate(self.stage_layers)}
        order: dict[int, None] = {}
        waiting = [position[name] for name in sorted(self.outputs, reverse=True)]
        while waiting:
            sources = [
                position[name]
                for name in self.stage_layers[waiting[-1]].inputs
                if name in position and position[name] not in order
            ]
            if sources:
                waiting += reversed(sources)
            else:
                order.setdefault(waiting.pop())
        return tuple(order)

    @functools.cached_property
    def ordered(self) -> ModelSpec:
        """The same model with its layers in `order`; itself if they are."""
        if self.order == tuple(range(len(self.order))):
            return self
        layers = tuple(self.stage_layers[at] for at in self.order)
        return replace(self, layers=(*self.input_layers, *layers))

    @property
    def value_bytes(self) -> int:
        """Bytes of one value that it computes."""
        return 2 if self.dtype == "float16" else 4

    @property
    def weight_bytes(self) -> int:
        """Bytes of one value of a weight, of its gradient and of its optimizer."""
        return 2 if (self.weight_dtype or self.dtype) == "float16" else 4

    @functools.cached_property
    def alike(self) -> tuple[int, ...]:
        """A number for every layer; those of one number differ only in name and place.

        So what follows from a layer alone is worked out once for all that are alike.
        """
        numbers: dict[object, int] = {}
        return tuple(
            numbers.setdefault(_looks(layer), len(numbers)) for layer in self.layers
        )

    @functools.cached_property
    def shared(self) -> tuple[tuple[str, ...], ...]:
        """Names of the calls that use the same weights, where there are several."""
        calls: dict[str, list[str]] = {}
        for layer in self.layers:
            if layer.weights_of:
                first = calls.setdefault(layer.weights_of, [layer.weights_of])
                first.append(layer.name)
        return tuple(map(tuple, calls.values()))

    @functools.cached_property
    def parameters(self) -> int:
        """Number of weight values of the whole model."""
        return sum(layer.parameters for layer in self.layers)


def _looks(layer: Layer) -> object:
    # As text, because values of settings may be lists, and True is not 1.
    settings = repr(sorted({**layer.spec.settings, "name": ""}.items()))
    shapes = (layer.input_shapes, layer.output_shape)
    return layer.kind, settings, shapes, layer.weights, layer.traced


@functools.lru_cache(maxsize=64)
def gradient_needed(model: ModelSpec) -> Mapping[str, bool]:
    """Tell for every layer whether something before or in it is trained."""
    needed: dict[str, bool] = {}
    for layer in model.layers:
        trained = any(weight.trainable for weight in layer.weights)
        needed[layer.name] = trained or any(needed[name] for name in layer.inputs)
    return needed


@functools.lru_cache(maxsize=64)
def count_consumers(model: ModelSpec) -> Mapping[str, int]:
    """Count how often every layer's output is taken."""
    consumers = {layer.name: 0 for layer in model.layers}
    for layer in model.layers:
        for name in layer.inputs:
            consumers[name] += 1
    return consumers
