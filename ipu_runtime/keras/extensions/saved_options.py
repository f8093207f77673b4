"""What a model's Keras configuration says of the IPU: its options and its stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.saving import (
    ASSIGNMENT_KEY,
    VALID_KEY,
    calls_from_config,
    calls_to_config,
    options_from_config,
    options_to_config,
    stages_from_config,
    stages_to_config,
)
from ipu_runtime.keras.layer_calls import assignments_of, layer_assignments, take_tags


def saved_options(model: Any) -> dict[str, Any]:
    """Return the options and stages of an extended model as they are saved."""
    state = state_of(model)
    return options_to_config(state.options) | _saved_assignment(model)


def restore_options(model: Any, saved: Mapping[str, Any]) -> None:
    """Take over saved options, and the stages that were saved or are tagged."""
    options_from_config(state_of(model).options, saved)
    restore_assignment(model, saved)


def restore_assignment(model: Any, saved: Mapping[str, Any]) -> None:
    """Take over saved stages; without any, tags count where the calls are a graph."""
    stages = saved.get(ASSIGNMENT_KEY)
    sequential = isinstance(model, keras.Sequential)
    if sequential and (stages is None or not saved.get(VALID_KEY, True)):
        return
    assignment = assignments_of(model, state_of(model).network)
    if sequential:
        stages_from_config(assignment, stages or ())
    elif stages is not None:
        calls_from_config(_operations_of_calls(model), assignment, stages)
    elif not _take_tags(assignment):
        return
    model.set_pipeline_stage_assignment(assignment)


def _saved_assignment(model: Any) -> dict[str, Any]:
    assignment = state_of(model).assignment
    if isinstance(model, keras.Sequential):
        stages = None if assignment is None else stages_to_config(assignment)
        return {ASSIGNMENT_KEY: stages, VALID_KEY: assignment is not None}
    if assignment is None:
        return {ASSIGNMENT_KEY: None}
    return {ASSIGNMENT_KEY: calls_to_config(_operations_of_calls(model), assignment)}


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


def _operations_of_calls(model: Any) -> list[Any]:
    network = state_of(model).network
    return list((model if network is None else network).operations)
