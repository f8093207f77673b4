"""A built Keras model as the plan sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.engine.describe.layer_tracer import trace_layer
from ipu_runtime.engine.describe.model_graph import (
    Call,
    ModelGraph,
    NotAGraphError,
    model_graph,
    network_of,
    traced_network,
)
from ipu_runtime.engine.describe.repeatable_call import (
    RepeatableCall,
    call_of_model,
    call_of_node,
)
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import layers_inside, shapes_built_for
from ipu_runtime.plan.layers.shapes import (
    LAYER_KINDS,
    model_of,
    resolve_inputs,
    setting_problems,
    shaped_layer,
)
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec, Weight
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.problem import Problem

_MASKS = {"mask", "attention_mask", "query_mask", "value_mask", "key_mask"}
"""Arguments that change what a known layer computes."""


@dataclass(frozen=True)
class ReadModel:
    """A model's specification, with the way back to the layer calls."""

    graph: ModelGraph
    spec: ModelSpec | None
    """None when an input leaves an extent open: see `problems`."""
    problems: tuple[Problem, ...]

    def checked_spec(self) -> ModelSpec:
        """Return the specification; ValueError with the problems if there is none."""
        if self.spec is None:
            raise ValueError("; ".join(str(problem) for problem in self.problems))
        return self.spec


def read_model(model: Any) -> ModelSpec:
    """Return the specification of a built model, in which every layer has a cost.

    ValueError if it has none, because it is not built or an input leaves an extent
    open.
    """
    network = network_of(model)
    if network is None:
        x = _inputs_built_for(model)
        try:
            network = traced_network(model, x)
        except Exception:  # `call` may do anything with values, besides calling layers
            return read_as_one_layer(model, x)
    return read_graph(model_graph(network), model.compute_dtype).checked_spec()


def read_as_one_layer(model: Any, x: Any) -> ModelSpec:
    """Return a model whose calls are hidden as a single layer that takes `x`."""
    call = call_of_model(model, x)
    names = tuple(f"input_{at}" for at in range(len(call.inputs)))
    inputs, problems = resolve_inputs(
        [
            LayerSpec(name, "Input", _input_settings(symbol))
            for name, symbol in zip(names, call.inputs, strict=True)
        ]
    )
    dtype, weight_dtype = model_dtypes(layers_inside(model), model.compute_dtype)
    layer = trace_layer(
        call, LayerSpec(model.name, layer_kind(model), {}, names), dtype
    )
    spec, more = model_of([*inputs, layer], dtype, weight_dtype)
    if spec is None or problems:
        raise ValueError("; ".join(str(problem) for problem in problems + more))
    return spec


def _inputs_built_for(model: Any) -> Any:
    """Return symbols of the shapes that a subclassed model was built for."""
    shapes = shapes_built_for(model)
    if not shapes:
        raise NotAGraphError(
            f"the calls of {model.name} ({type(model).__name__}) are not known: build "
            "it with an input shape, or call it once"
        )
    inputs = [keras.Input(batch_shape=shape) for shape in shapes]
    return inputs[0] if len(inputs) == 1 else inputs


def read_graph(graph: ModelGraph, dtype: str = "float32") -> ReadModel:
    """Return the specification of the calls of a graph.

    Layers of kinds that the plan knows have its costs; others are traced.
    """
    inputs, problems = resolve_inputs(
        [
            LayerSpec(name, "Input", _input_settings(symbol))
            for name, symbol in zip(
                graph.input_names, graph.network.inputs, strict=True
            )
        ]
    )
    if problems:
        return ReadModel(graph, None, problems)
    dtype, weight_dtype = model_dtypes((call.operation for call in graph.calls), dtype)
    layers = list(inputs)
    sharing = SharedWeights()
    for call, sources in sourced(graph):
        spec = LayerSpec(
            call.name,
            layer_kind(call.operation),
            layer_settings(call.operation),
            sources,
        )
        masked = any(
            value is not None and name in _MASKS
            for name, value in call.arguments.kwargs.items()
        )
        layer = costed_layer(call_of_node(call), spec, dtype, masked=masked)
        layers.append(sharing.marked(layer, call.operation))
    model, problems = model_of([*map(sharing.grouped, layers)], dtype, weight_dtype)
    return ReadModel(graph, model, problems)


def outline(graph: ModelGraph) -> ModelSpec:
    """Return the calls and what they share, for rules; shapes and costs are left out.

    So a model whose inputs leave an extent open is judged as any other is.
    """
    layers = [Layer(LayerSpec(name, "Input"), (), ()) for name in graph.input_names]
    sharing = SharedWeights()
    for call, sources in sourced(graph):
        spec = LayerSpec(call.name, layer_kind(call.operation), {}, sources)
        variables = getattr(call.operation, "weights", ())
        weights = tuple(Weight(variable.name, ()) for variable in variables)
        layer = Layer(spec, (), (), weights)
        layers.append(sharing.marked(layer, call.operation))
    return ModelSpec(tuple(map(sharing.grouped, layers)), ())


def sourced(graph: ModelGraph) -> Iterator[tuple[Call, tuple[str, ...]]]:
    """Yield the calls with the names of the calls and inputs that feed them."""
    maker = dict(zip(graph.inputs, graph.input_names, strict=True))
    for call in graph.calls:
        symbols = call.arguments.keras_tensors
        yield call, tuple(maker[call.slots[id(symbol)]] for symbol in symbols)
        maker.update(dict.fromkeys(call.outputs, call.name))


def costed_layer(
    call: RepeatableCall, spec: LayerSpec, dtype: str, *, masked: bool = False
) -> Layer:
    """Return a layer with the cost of its kind, or traced if it has none."""
    known = None if masked else known_layer(call, spec)
    return known or trace_layer(call, spec, dtype)


def known_layer(call: RepeatableCall, spec: LayerSpec) -> Layer | None:
    """Return a layer that the plan knows exactly as it is called, None if it is not."""
    kind = LAYER_KINDS.get(spec.kind)
    own = getattr(keras.layers, spec.kind, None)
    if kind is None or (
        type(call.operation) is not own and not hasattr(call.operation, "planned_as")
    ):
        return None
    shapes = call.input_shapes
    if not kind.fewest_inputs <= len(shapes) <= kind.most_inputs:
        return None
    if setting_problems(spec, ""):
        return None
    layer = shaped_layer(spec, shapes, "")
    if isinstance(layer, Problem) or (layer.output_shape,) != call.output_shapes:
        return None
    if call.operation.trainable:
        return layer
    frozen = tuple(replace(weight, trainable=False) for weight in layer.weights)
    return replace(layer, weights=frozen)


def _input_settings(symbol: Any) -> dict[str, Any]:
    """Return shape and type of an input; numbers of the usual types are cast."""
    settings: dict[str, Any] = {"shape": [extent or -1 for extent in symbol.shape[1:]]}
    if symbol.dtype not in ("float32", "int32"):
        settings["dtype"] = symbol.dtype
    return settings


def model_dtypes(
    operations: Iterable[Any], default: str = "float32"
) -> tuple[str, str]:
    """Return what most layers with weights compute in, and keep these in if another.

    A model made of fp16 layers has a policy of its own, which stays at float32.
    """
    weighted = [item for item in operations if getattr(item, "weights", ())]
    if not weighted:
        return default, ""
    computed = _most_common(str(item.compute_dtype) for item in weighted)
    kept = _most_common(str(item.variable_dtype) for item in weighted)
    return computed, kept if kept != computed else ""


def _most_common(types: Iterable[str]) -> str:
    return Counter(types).most_common(1)[0][0]


def layer_kind(operation: Any) -> str:
    """Return the Keras class name; layers of the IPU stand for the one they equal."""
    return str(getattr(operation, "planned_as", type(operation).__name__))


def layer_settings(operation: Any) -> dict[str, Any]:
    """Return the settings of a layer that the plan looks at."""
    try:
        config = operation.get_config()
    except NotImplementedError:
        return {}
    kind = LAYER_KINDS.get(layer_kind(operation))
    return {
        name: plain(value)
        for name, value in config.items()
        if kind and name in kind.settings and _plain(value)
    }


def _plain(value: Any) -> bool:
    """Whether a setting is a number, a text or a sequence of them."""
    if isinstance(value, (list, tuple)):
        return all(_plain(item) for item in value)
    return isinstance(value, (bool, int, float, str))


class SharedWeights:
    """Finds out, call after call, which weights an earlier one has."""

    def __init__(self) -> None:
        self._owner: dict[int, str] = {}
        """Name of the first call that uses a variable, by its identity."""
        self._first: dict[str, str] = {}
        """The first of all calls that a call shares weights with, itself if none."""

    def marked(self, layer: Layer, operation: Any) -> Layer:
        """Return the next call with those of its weights marked that are not new."""
        if not layer.weights:
            return layer
        variables = [id(variable) for variable in operation.weights]
        known = [variable in self._owner for variable in variables]
        firsts = {
            self._first[self._owner[variable]]
            for variable in variables
            if variable in self._owner
        }
        self._first[layer.name] = self._joined(firsts) if firsts else layer.name
        for variable in variables:
            self._owner.setdefault(variable, layer.name)
        if len(known) != len(layer.weights):
            # A kind of the plan's may count several variables as one.
            known = [all(known)] * len(layer.weights)
        weights = zip(layer.weights, known, strict=True)
        marked = tuple(replace(weight, shared=shared) for weight, shared in weights)
        return replace(layer, weights=marked)

    def _joined(self, firsts: set[str]) -> str:
        """Make one group of several, and return its first call."""
        if len(firsts) == 1:
            return next(iter(firsts))
        first = next(name for name in self._first if name in firsts)
        for name, other in self._first.items():
            self._first[name] = first if other in firsts else other
        return first

    def grouped(self, layer: Layer) -> Layer:
        """Return a call, all of them being known, with the first of its group."""
        first = self._first.get(layer.name, layer.name)
        return replace(layer, weights_of="" if first == layer.name else first)
