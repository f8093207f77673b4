"""What Sequential models can do on the IPU."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ipu_runtime.keras.assignment_checks import check_sequential
from ipu_runtime.keras.assignments import SequentialLayerPipelineStageAssignment
from ipu_runtime.keras.extensions.base import BaseExtension
from ipu_runtime.keras.extensions.saving import (
    ASSIGNMENT_KEY,
    VALID_KEY,
    stages_from_config,
    stages_to_config,
)
from ipu_runtime.keras.extensions.state import state_of
from ipu_runtime.strategy_stack import plain_models

logger = logging.getLogger("tensorflow")


class SequentialExtension(BaseExtension):
    """Stages are only set with `set_pipeline_stage_assignment`; tags are not read."""

    _is_sequential = True

    def set_pipeline_stage_assignment(self, pipeline_stage_assignment: Any) -> None:
        """Pipeline the model; takes stages, assignments, or a mixture of both."""
        expected = self._unassigned()
        assignment = pipeline_stage_assignment
        if isinstance(assignment, list) and len(assignment) == len(expected):
            for index, item in enumerate(assignment):
                if isinstance(item, int) and not expected[index].is_nested_model:
                    assignment[index] = SequentialLayerPipelineStageAssignment(
                        expected[index].layer,  # type: ignore[union-attr]
                        item,
                    )
        check_sequential(self, assignment, expected)
        self._store(assignment)

    def build(self, input_shape: Any = None) -> None:
        """Build the layers; the graph that Keras makes of them stays Keras' own."""
        with plain_models():
            super().build(input_shape)  # type: ignore[misc]

    def add(self, layer: Any, rebuild: bool = True) -> None:
        """Add a layer; an assignment of stages is no longer valid then."""
        super().add(layer, rebuild=rebuild)  # type: ignore[misc]
        self._invalidate_assignment()

    def pop(self, rebuild: bool = True) -> Any:
        """Remove the last layer; an assignment of stages is no longer valid then."""
        layer = super().pop(rebuild=rebuild)  # type: ignore[misc]
        self._invalidate_assignment()
        return layer

    def _invalidate_assignment(self) -> None:
        if state_of(self).assignment is not None:
            logger.info(
                "The layers of %s have changed: its pipeline stage assignment is no "
                "longer valid and must be set again.",
                self.name,
            )
            self.reset_pipeline_stage_assignment()

    def _assignment_config(self) -> dict[str, Any]:
        assignment = state_of(self).assignment
        stages = None if assignment is None else stages_to_config(assignment)
        return {ASSIGNMENT_KEY: stages, VALID_KEY: assignment is not None}

    def _restore_assignment(self, saved: Mapping[str, Any]) -> None:
        stages = saved.get(ASSIGNMENT_KEY)
        if stages is None or not saved.get(VALID_KEY, True):
            return
        assignment = self._unassigned()
        stages_from_config(assignment, stages)
        self.set_pipeline_stage_assignment(assignment)
