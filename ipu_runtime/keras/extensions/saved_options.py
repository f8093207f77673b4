"""What a model's Keras configuration says of the IPU: its options and its stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import KerasModel, Layer
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.option_table import (
    SAVED_OPTIONS,
    options_from_config,
    options_to_config,
)
from ipu_runtime.keras.layer_calls import assignments_of, layer_assignments, take_tags

ASSIGNMENT_KEY = "pipeline_stage_assignment"
VALID_KEY = "pipeline_stage_assignment_valid"
CONFIG_KEYS = (*SAVED_OPTIONS, ASSIGNMENT_KEY, VALID_KEY)


def saved_options(model: KerasModel) -> dict[str, Any]:
    """Return the options and stages of an extended model as they are saved."""
    state = state_of(model)
    return options_to_config(state.options) | _saved_assignment(model)


def restore_options(model: KerasModel, saved: Mapping[str, Any]) -> None:
    """Take over saved options, and the stages that were saved or are tagged."""
    options_from_config(state_of(model).options, saved)
    restore_assignment(model, saved)


def restore_assignment(model: KerasModel, saved: Mapping[str, Any]) -> None:
    """Take over saved stages; without any, tags count where the calls are a graph."""
    stages = saved.get(ASSIGNMENT_KEY)
    sequential = isinstance(model, keras.Sequential)
    if sequential and (stages is None or not saved.get(VALID_KEY, True)):
        return
    assignment = assignments_of(model, state_of(model).network)
    if sequential:
        _stages_from_config(assignment, stages or ())
    elif stages is not None:
        _calls_from_config(_operations_of_calls(model), assignment, stages)
    elif not _take_tags(assignment):
        return
    model.set_pipeline_stage_assignment(assignment)


def _saved_assignment(model: KerasModel) -> dict[str, Any]:
    assignment = state_of(model).assignment
    if isinstance(model, keras.Sequential):
        stages = None if assignment is None else _stages_to_config(assignment)
        return {ASSIGNMENT_KEY: stages, VALID_KEY: assignment is not None}
    if assignment is None:
        return {ASSIGNMENT_KEY: None}
    return {ASSIGNMENT_KEY: _calls_to_config(_operations_of_calls(model), assignment)}


def _take_tags(assignment: list[Any]) -> bool:
    """Tell whether layers are tagged, which makes a pipeline; then all must be."""
    take_tags(assignment)
    layers = list(layer_assignments(assignment))
    if all(item.pipeline_stage is None for item in layers):
        return False
    for item in layers:
        if item.pipeline_stage is None:
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline "
                f"stage. However, {item.layer.name} has none: create or call it "
                "inside a PipelineStage."
            )
    return True


def _operations_of_calls(model: KerasModel) -> list[Layer]:
    network = state_of(model).network
    return list((model if network is None else network).operations)


def _calls_to_config(
    operations: Sequence[Layer], assignments: Sequence[Any]
) -> list[Any]:
    """Return (layer index, index of its call, stage or inner assignment) per call."""
    saved = []
    for position, call, assignment in _positions(operations, assignments):
        if assignment.is_nested_model:
            inner: Any = _stages_to_config(assignment.pipeline_stage_assignments)
        else:
            inner = assignment.pipeline_stage
        saved.append([position, call, inner])
    return saved


def _calls_from_config(
    operations: Sequence[Layer], assignments: Sequence[Any], saved: Sequence[Any]
) -> None:
    """Give every call of a graph the stage that was saved for it."""
    stages = {(position, call): stage for position, call, stage in saved}
    for position, call, assignment in _positions(operations, assignments):
        _restore(assignment, stages[position, call])


def _stages_to_config(assignments: Sequence[Any]) -> list[Any]:
    """Return the stages in order, those of a nested model as a list."""
    return [
        _stages_to_config(item.pipeline_stage_assignments)
        if item.is_nested_model
        else item.pipeline_stage
        for item in assignments
    ]


def _stages_from_config(assignments: Sequence[Any], saved: Sequence[Any]) -> None:
    """Give every layer the stage that was saved for it."""
    for assignment, stage in zip(assignments, saved, strict=True):
        _restore(assignment, stage)


def _restore(assignment: Any, saved: Any) -> None:
    if assignment.is_nested_model:
        _stages_from_config(assignment.pipeline_stage_assignments, saved)
    else:
        assignment.pipeline_stage = saved


def _positions(
    operations: Sequence[Layer], assignments: Sequence[Any]
) -> list[tuple[int, int, Any]]:
    position_of = {id(operation): index for index, operation in enumerate(operations)}
    seen: Counter[int] = Counter()
    positions = []
    for assignment in assignments:
        layer = (
            assignment.nested_model if assignment.is_nested_model else assignment.layer
        )
        positions.append((position_of[id(layer)], seen[id(layer)], assignment))
        seen[id(layer)] += 1
    return positions
