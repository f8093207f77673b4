"""The layer calls of a model as assignments, and the stages that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipu_runtime.engine.describe.model_graph import (
    NotAGraphError,
    expandable,
    model_graph,
    network_of,
    runs_as_written,
)
from ipu_runtime.engine.describe.model_options import LayerCall
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import nodes_in_order, nodes_of
from ipu_runtime.frameworks.types import KerasModel, Layer
from ipu_runtime.keras.extensions.pipeline_stage_assignment import (
    Assignment,
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu_runtime.keras.pipeline_stage import tagged_stage


def is_nested_model(layer: Layer) -> bool:
    """Whether a layer is an extended model whose own layers can have stages."""
    return (
        hasattr(type(layer), "__original_class__")
        and runs_as_written(layer)
        and network_of(layer) is not None
    )


def assignments_of(model: KerasModel, network: Any | None = None) -> list[Assignment]:
    """Return an assignment without a stage for every layer call of a model.

    Args:
        network: the traced calls of a subclassed model.
    """
    if network is not None:
        return _node_assignments(network, subclassed=True)
    if isinstance(model, keras.Sequential):
        return [_sequential_assignment(layer) for layer in model.layers]
    return _node_assignments(network_of(model), subclassed=False)


def _sequential_assignment(layer: Layer) -> Assignment:
    if is_nested_model(layer):
        return SequentialNestedModelPipelineStageAssignment(
            layer, assignments_of(layer)
        )
    return SequentialLayerPipelineStageAssignment(layer)


def _node_assignments(network: Any, subclassed: bool) -> list[Assignment]:
    nested_class, layer_class = (
        (NestedModelPipelineStageAssignment, ModelLayerPipelineStageAssignment)
        if subclassed
        else (
            FunctionalNestedModelPipelineStageAssignment,
            FunctionalLayerPipelineStageAssignment,
        )
    )
    assignments: list[Assignment] = []
    for node in nodes_in_order(network):
        layer = node.operation
        index = nodes_of(layer).index(node)
        if is_nested_model(layer) and expandable(node):
            assignments.append(nested_class(layer, index, assignments_of(layer)))
        else:
            assignments.append(layer_class(layer, index))
    return assignments


def layer_assignments(assignments: Sequence[Any]) -> Iterator[Any]:
    """Return the assignments of single layers, those of nested models included."""
    for assignment in assignments:
        if assignment.is_nested_model:
            yield from layer_assignments(assignment.pipeline_stage_assignments)
        else:
            yield assignment


def take_tags(assignments: Sequence[Any], outer: int | None = None) -> None:
    """Give every assignment the stage that its layer call or layer is tagged with."""
    for assignment in assignments:
        if assignment.is_nested_model:
            tag = _tag(assignment.nested_model, assignment)
            take_tags(
                assignment.pipeline_stage_assignments, outer if tag is None else tag
            )
        else:
            tag = _tag(assignment.layer, assignment)
            assignment.pipeline_stage = outer if tag is None else tag


def _tag(layer: Layer, assignment: Any) -> int | None:
    index = getattr(assignment, "node_index", 0)
    nodes = nodes_of(layer)
    return tagged_stage(nodes[index]) if index < len(nodes) else None


def stages_of(
    model: KerasModel, assignments: Sequence[Any], network: Any | None = None
) -> list[tuple[LayerCall, int]]:
    """Return the stage of every layer call as the engine names the calls."""
    stages = [(key, item.pipeline_stage) for key, item in _prefixed(assignments, ())]
    try:
        calls = model_graph(network if network is not None else model).calls
    except NotAGraphError:
        return stages
    known = dict(stages)
    return [(call.key, known[_known_prefix(call.key, known)]) for call in calls]


def give_stages(
    model: KerasModel,
    assignments: Sequence[Any],
    stages: Sequence[int],
    network: Any = None,
) -> None:
    """Give the assignments the stages of the calls, which are in execution order."""
    known = dict(_prefixed(assignments, ()))
    try:
        calls = model_graph(network if network is not None else model).calls
        keys = [_known_prefix(call.key, known) for call in calls]
    except NotAGraphError:
        keys = list(known)
    if len(keys) != len(stages):
        raise ValueError(
            f"{len(stages)} stages are given, but {model.name} has {len(keys)} layer "
            "calls."
        )
    for key, stage in zip(keys, stages, strict=True):
        if known[key].pipeline_stage not in (None, stage):
            name = "/".join(part for part, _ in key)
            raise ValueError(f"{name} is one layer of {model.name}: it has one stage.")
        known[key].pipeline_stage = stage


def _known_prefix(key: LayerCall, known: Mapping[LayerCall, Any]) -> LayerCall:
    """Find who speaks for a call: itself, or a model that is assigned as a whole."""
    return next(
        key[:length] for length in range(len(key), 0, -1) if key[:length] in known
    )


def _prefixed(
    assignments: Sequence[Any], path: LayerCall
) -> Iterator[tuple[LayerCall, Any]]:
    seen: Counter[int] = Counter()
    for assignment in assignments:
        layer = (
            assignment.nested_model if assignment.is_nested_model else assignment.layer
        )
        key = (*path, (layer.name, seen[id(layer)]))
        seen[id(layer)] += 1
        if assignment.is_nested_model:
            yield from _prefixed(assignment.pipeline_stage_assignments, key)
        else:
            yield key, assignment
