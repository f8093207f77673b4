"""Pipeline stages of a model that is there already, by the names of its layers.

Runs call these functions, and scripts print them as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def named_calls(
    assignments: Iterable[Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the name of every layer call, as the plan has it, and its assignment."""
    calls: dict[str, int] = {}
    for assignment in assignments:
        nested = assignment.is_nested_model
        name = (assignment.nested_model if nested else assignment.layer).name
        number = calls[name] = calls.get(name, -1) + 1
        full = f"{prefix}{name}_call{number}" if number else f"{prefix}{name}"
        if nested:
            yield from named_calls(assignment.pipeline_stage_assignments, f"{full}/")
        else:
            yield full, assignment


def assign_stages(model: Any, stage_of_layer: Mapping[str, int]) -> None:
    """Set the stage of every layer of a pipeline, where a scope cannot."""
    assignments = model.get_pipeline_stage_assignment()
    for name, assignment in named_calls(assignments):
        assignment.pipeline_stage = stage_of_layer[name]
    model.set_pipeline_stage_assignment(assignments)
