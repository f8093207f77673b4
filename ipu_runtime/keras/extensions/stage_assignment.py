"""The methods that get, set and print pipeline stages, common to all models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.keras.extensions.assignment_checks import check_calls
from ipu_runtime.keras.extensions.assignment_summary import print_summary
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.pipeline_stage_assignment import Assignment
from ipu_runtime.keras.layer_calls import assignments_of, stages_of


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
        notice("model.set_pipeline_stage_assignment")
        state = state_of(self)
        state.assignment = list(assignment)
        state.options.stages = stages_of(self, assignment, state.network)
        self._reset_ipu_programs()

    def _trace_calls(self, x: Any, batch_size: int | None) -> None:
        """Find out the layer calls before running, where they are not yet known."""

    def _reset_ipu_programs(self) -> None:
        raise NotImplementedError
