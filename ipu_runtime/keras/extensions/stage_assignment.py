"""The methods that get, set and print pipeline stages, common to all models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from ipu_runtime.keras.assignment_checks import check_calls
from ipu_runtime.keras.assignment_summary import print_summary
from ipu_runtime.keras.assignments import Assignment
from ipu_runtime.keras.extensions.saving import (
    ASSIGNMENT_KEY,
    calls_from_config,
    calls_to_config,
)
from ipu_runtime.keras.extensions.state import state_of
from ipu_runtime.keras.layer_calls import (
    assignments_of,
    layer_assignments,
    stages_of,
    take_tags,
)


class StageAssignment:
    """Stages of the layer calls of a model whose calls are a graph."""

    name: str

    def get_pipeline_stage_assignment(self) -> list[Assignment]:
        """Return the stage of every layer call, in execution order."""
        assignment = state_of(self).assignment
        if assignment is not None:
            return copy.copy(assignment)
        return self._unassigned()

    def set_pipeline_stage_assignment(self, pipeline_stage_assignment: Any) -> None:
        """Pipeline the model; takes what `get_pipeline_stage_assignment` returns."""
        expected = self._unassigned()
        network = state_of(self).network
        check_calls(self, pipeline_stage_assignment, expected, network)
        self._store(pipeline_stage_assignment)

    def reset_pipeline_stage_assignment(self) -> None:
        """Make the model one that is not pipelined."""
        state = state_of(self)
        state.assignment = None
        state.options.stages = None
        self._reset_ipu_programs()

    def print_pipeline_stage_assignment_summary(
        self,
        line_length: int | None = None,
        print_fn: Callable[[str], Any] | None = None,
    ) -> None:
        """Print a table of layers and their stages."""
        print_summary(
            self.name,
            self.get_pipeline_stage_assignment(),
            sequential=self._is_sequential,
            line_length=line_length,
            print_fn=print_fn or print,
        )

    _is_sequential = False

    def _unassigned(self) -> list[Assignment]:
        return assignments_of(self)

    def _store(self, assignment: list[Assignment]) -> None:
        state = state_of(self)
        state.assignment = list(assignment)
        state.options.stages = stages_of(self, assignment, state.network)
        self._reset_ipu_programs()

    def _take_tags(self) -> None:
        """Pipeline the model if its layers are tagged; then all of them must be."""
        assignment = self._unassigned()
        take_tags(assignment)
        layers = list(layer_assignments(assignment))
        if all(item.pipeline_stage is None for item in layers):
            return
        for item in layers:
            if item.pipeline_stage is None:
                raise ValueError(
                    "All layers of a pipelined model must have an associated pipeline "
                    f"stage. However, {item.layer.name} has none: create or call it "
                    "inside a PipelineStage."
                )
        self.set_pipeline_stage_assignment(assignment)

    def _assignment_config(self) -> dict[str, Any]:
        assignment = state_of(self).assignment
        if assignment is None:
            return {ASSIGNMENT_KEY: None}
        return {
            ASSIGNMENT_KEY: calls_to_config(self._operations_of_calls(), assignment)
        }

    def _restore_assignment(self, saved: Mapping[str, Any]) -> None:
        stages = saved.get(ASSIGNMENT_KEY)
        if stages is None:
            self._take_tags()
            return
        assignment = self._unassigned()
        calls_from_config(self._operations_of_calls(), assignment, stages)
        self.set_pipeline_stage_assignment(assignment)

    def _operations_of_calls(self) -> list[Any]:
        return list(self.operations)  # type: ignore[attr-defined]

    def _trace_calls(self, x: Any, batch_size: int | None) -> None:
        """Find out the layer calls before running, where they are not yet known."""

    def _reset_ipu_programs(self) -> None:
        raise NotImplementedError
