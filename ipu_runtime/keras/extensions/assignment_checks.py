"""Whether a list of pipeline stage assignments is valid for a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ipu_runtime.engine.describe.keras_reader import sourced
from ipu_runtime.engine.describe.model_graph import NotAGraphError, model_graph
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.keras.layer_calls import layer_assignments, stages_of
from ipu_runtime.plan.rules.stage_rules import check_data_flow


def check_sequential(
    model: KerasModel, assignments: Any, expected: Sequence[Any]
) -> None:
    """Raise unless the assignments fit the layers of a Sequential model."""
    _check_list(model, assignments, expected, "layers")
    for index, (given, wanted) in enumerate(zip(assignments, expected, strict=True)):
        _check_type(given, wanted)
        _check_same_layer(index, given, wanted, "layer")
    if any(item.is_nested_model for item in assignments):
        for given, wanted in zip(assignments, expected, strict=True):
            _check_nested(given, wanted)
        _check_assigned(assignments)
        _check_flow(model, assignments)
        return
    _check_assigned(assignments)
    _check_steps(assignments)


def check_calls(
    model: KerasModel,
    assignments: Any,
    expected: Sequence[Any],
    network: Any | None = None,
) -> None:
    """Raise unless the assignments fit the layer calls of a model that is a graph."""
    _check_list(model, assignments, expected, "layer calls")
    for index, (given, wanted) in enumerate(zip(assignments, expected, strict=True)):
        _check_type(given, wanted)
        _check_call(index, given, wanted)
        _check_nested(given, wanted)
    _check_assigned(assignments)
    _check_flow(model, assignments, network)


def _check_flow(
    model: KerasModel, assignments: Sequence[Any], network: Any | None = None
) -> None:
    """Raise if a layer call needs something that a later stage makes."""
    try:
        graph = model_graph(network if network is not None else model)
    except NotAGraphError:
        raise RuntimeError(
            f"Pipeline stages inside nested models need a model that is built, but "
            f"{model.name} is not: give it an Input layer or call build()."
        ) from None
    stages = dict(stages_of(model, assignments, network))
    raise_for(
        check_data_flow(
            (call.name, stages[call.key], sources) for call, sources in sourced(graph)
        )
    )


def _check_list(
    model: KerasModel, assignments: Any, expected: Sequence[Any], what: str
) -> None:
    if not isinstance(assignments, list):
        raise ValueError(
            "`pipeline_stage_assignment` must be a list, but it is a "
            f"{type(assignments).__name__}."
        )
    if len(assignments) != len(expected):
        raise ValueError(
            "The size of the provided `pipeline_stage_assignment` "
            f"({len(assignments)}) does not match the number of {what} in "
            f"{model.name} ({len(expected)}), input layers excluded."
        )


def _check_type(given: Any, wanted: Any) -> None:
    allowed = type(wanted)
    if not isinstance(given, allowed):
        raise ValueError(
            "All elements of `pipeline_stage_assignment` must be instances of "
            f"{allowed.__name__} here, but one is {given!r} "
            f"({type(given).__name__})."
        )


def _layer(assignment: Any) -> Any:
    return assignment.nested_model if assignment.is_nested_model else assignment.layer


def _check_same_layer(index: int, given: Any, wanted: Any, what: str) -> None:
    if _layer(given) is not _layer(wanted):
        raise ValueError(
            f"The assignment at index {index} is for {what} {_layer(given).name}, but "
            f"the {what} there is {_layer(wanted).name}."
        )


def _check_call(index: int, given: Any, wanted: Any) -> None:
    same = _layer(given) is _layer(wanted) and given.node_index == wanted.node_index
    if not same:
        raise ValueError(
            f"The assignment at index {index} ({_layer(given).name}, node index "
            f"{given.node_index}) does not match the post-order generated from the "
            f"graph: {_layer(wanted).name}, node index {wanted.node_index}."
        )


def _check_nested(given: Any, wanted: Any) -> None:
    if not given.is_nested_model:
        return
    inner = given.pipeline_stage_assignments
    expected = wanted.pipeline_stage_assignments
    _check_list(given.nested_model, inner, expected, "layer calls")
    sequential = isinstance(given.nested_model, keras.Sequential)
    for index, (item, other) in enumerate(zip(inner, expected, strict=True)):
        _check_type(item, other)
        if sequential:
            _check_same_layer(index, item, other, "layer")
        else:
            _check_call(index, item, other)
        _check_nested(item, other)


def _check_assigned(assignments: Sequence[Any]) -> None:
    for assignment in layer_assignments(assignments):
        if assignment.pipeline_stage is None:
            call = (
                f" with node index {assignment.node_index}"
                if hasattr(assignment, "node_index")
                else ""
            )
            raise ValueError(
                f"Layer {assignment.layer.name}{call} has not been assigned a pipeline "
                "stage."
            )


def _check_steps(assignments: Sequence[Any]) -> None:
    """In a plain stack, stages start at 0 and grow by at most one per layer."""
    first = assignments[0] if assignments else None
    if first is not None and first.pipeline_stage != 0:
        raise ValueError(
            f"The first layer {first.layer.name} is in pipeline stage "
            f"{first.pipeline_stage}, but it needs to be assigned to the 0th pipeline "
            "stage."
        )
    for before, after in pairwise(assignments):
        valid = (before.pipeline_stage, before.pipeline_stage + 1)
        if after.pipeline_stage not in valid:
            raise ValueError(
                f"Layer {after.layer.name} is in pipeline stage "
                f"{after.pipeline_stage}, but the layer before it is in stage "
                f"{valid[0]}: it must be in stage {valid[0]} or {valid[1]}."
            )
