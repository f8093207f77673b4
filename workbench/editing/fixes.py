"""Values that would let an experiment run that cannot, and how changes are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.editing.draft import Draft, blocking_problems, with_values
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import value_text

_MOST_STEPS = 8
"""One message often hides the next."""


def fixing_values(draft: Draft) -> dict[str, Any]:
    """Return values that let the experiment run or bring it nearer; {} if unknown."""
    if not draft.why_not_run:
        return {}
    if draft.value("pipeline.stages") and draft.stages:
        # It loads the schedules, which the first frame can do without.
        from workbench.editing.stage_counts import staged_values

        values = staged_values(draft.tables, draft.stages)
        if values and not blocking_problems(with_values(draft.tables, values)):
            return values
    return _suggested(draft.tables)


def _suggested(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Follow the messages' own suggestions, one after the other."""
    values: dict[str, Any] = {}
    for _ in range(_MOST_STEPS):
        proposal = next(
            (
                item
                for item in blocking_problems(with_values(tables, values))
                if item.suggestion is not None
                and item.where in FIELD_OF_PATH
                and item.where not in values
            ),
            None,
        )
        if proposal is None:
            break
        value = proposal.suggestion
        values[proposal.where] = list(value) if isinstance(value, tuple) else value
    return values


def change_words(draft: Draft, values: Mapping[str, Any]) -> str:
    """Return what some values change, stages apart: `auto_select_ipus 1 to 4`."""
    return ", ".join(
        f"{path.rpartition('.')[2]} {draft.text(path) or '-'} to {value_text(value)}"
        for path, value in values.items()
        if path != "pipeline.stages" and value != draft.value(path)
    )
