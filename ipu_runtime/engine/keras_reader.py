"""A built Keras model as the plan sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.model_graph import Call, ModelGraph, model_graph
from ipu_runtime.plan.model_spec import LayerSpec, ModelSpec
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.shapes import LAYER_KINDS, resolve_model


@dataclass(frozen=True)
class ReadModel:
    """A model's specification, with the way back to the layer calls."""

    graph: ModelGraph
    spec: ModelSpec | None
    """None when the plan does not know a layer kind: see `problems`."""
    problems: tuple[Problem, ...]
    calls_by_name: Mapping[str, Call]


def read_model(model: Any) -> ModelSpec:
    """Return the specification of a built model; ValueError if it has none."""
    read = read_graph(model_graph(model), model.compute_dtype)
    if read.spec is None:
        raise ValueError("; ".join(str(problem) for problem in read.problems))
    return read.spec


def read_graph(graph: ModelGraph, dtype: str = "float32") -> ReadModel:
    """Return the specification of the calls of a graph, as far as the plan knows it."""
    maker = dict(zip(graph.inputs, graph.input_names, strict=True))
    layers = [
        LayerSpec(name=name, kind="Input", settings={"shape": list(shape[1:])})
        for name, shape in zip(graph.input_names, graph.input_shapes, strict=True)
    ]
    for call in graph.calls:
        layers.append(
            LayerSpec(
                name=call.name,
                kind=layer_kind(call.operation),
                settings=layer_settings(call.operation),
                inputs=tuple(maker[slot] for slot in call.inputs),
            )
        )
        maker.update(dict.fromkeys(call.outputs, call.name))
    spec, problems = resolve_model(layers, _compute_dtype(graph, dtype))
    return ReadModel(graph, spec, problems, {call.name: call for call in graph.calls})


def _compute_dtype(graph: ModelGraph, default: str) -> str:
    """Return the type that most layers with weights compute in.

    A model made of fp16 layers has a policy of its own, which stays at float32.
    """
    types = Counter(
        str(call.operation.compute_dtype)
        for call in graph.calls
        if getattr(call.operation, "weights", ())
    )
    return types.most_common(1)[0][0] if types else default


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
        name: value
        for name, value in config.items()
        if kind and name in kind.settings and _plain(value)
    }


def _plain(value: Any) -> bool:
    """Whether a setting is a number, a text or a sequence of them."""
    if isinstance(value, (list, tuple)):
        return all(_plain(item) for item in value)
    return isinstance(value, (bool, int, float, str))
