"""From the record of an experiment back to the fields of its preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.editing.draft import Draft, check_tables, value_in
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_differences import changed_fields
from workbench.experiment.preset_store import Preset
from workbench.experiment.tables import spec_to_tables


def changes_from(preset: Preset, tables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields that make a preset the experiment; None if fields cannot."""
    spec, _ = check_tables(preset.tables)
    if spec is None:
        return None
    differences = changed_fields(tables, spec_to_tables(spec))
    if any(item.path not in FIELD_OF_PATH for item in differences):
        return None
    return {item.path: value_in(tables, item.path) for item in differences}


def take_over(draft: Draft, changes: Mapping[str, Any]) -> None:
    """Let a draft have these changes and no others; one undo takes it all back."""
    preset = draft.preset.tables
    restored = {path: value_in(preset, path) for path in draft.changed()}
    draft.set({**restored, **changes})
