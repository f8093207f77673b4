"""What Sequential models can do on the IPU."""

from __future__ import annotations

import logging
from typing import Any

from ipu_runtime.frameworks.types import Layer
from ipu_runtime.keras.extensions.assignment_checks import check_sequential
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.extensions_base import KerasExtensionBase
from ipu_runtime.keras.extensions.pipeline_stage_assignment import (
    SequentialLayerPipelineStageAssignment,
)
from ipu_runtime.strategies.strategy_stack import plain_models

logger = logging.getLogger("tensorflow")


class SequentialExtension(KerasExtensionBase):
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

    def add(self, layer: Layer, rebuild: bool = True) -> None:
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
