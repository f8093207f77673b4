"""The way from a captured experiment back to the script, with what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.editing.draft import Check
from workbench.experiment.field_values import value_text
from workbench.experiment.preset_store import Preset
from workbench.models.captured_model import read_capture
from workbench.models.model_source import CAPTURE_ENDING, SourceError
from workbench.overlays.script_fields import check_changes, script_changes
from workbench.scripts.script_command import ScriptCommand


def is_captured(tables: Mapping[str, Any]) -> bool:
    """Tell whether a script has the model of an experiment, and is what runs it."""
    model = tables.get("model")
    source = model.get("source") if isinstance(model, Mapping) else None
    return isinstance(source, str) and source.endswith(CAPTURE_ENDING)


def script_check(preset: Preset) -> Check:
    """Return what tells which changed fields the script of an experiment leaves out."""
    if not is_captured(preset.tables):
        return lambda tables: ()
    try:
        script = read_capture(Path(preset.tables["model"]["source"])).tables
    except SourceError:
        return lambda tables: ()  # Reading the model says so.
    return lambda tables: tuple(check_changes(script_changes(tables, script)))


def captured_command(
    preset: Preset, tables: Mapping[str, Any]
) -> tuple[ScriptCommand | None, str]:
    """Return how the script runs with an experiment's fields, or why it cannot.

    Args:
        preset: The experiment as its file has it.
        tables: What has become of it.
    """
    try:
        captured = read_capture(Path(tables["model"]["source"]))
    except SourceError as error:
        return None, str(error)
    options: list[str] = []
    if preset.path.suffix == ".toml":
        options += ["--with", str(preset.path)]
    for path, value in script_changes(tables, preset.tables).items():
        options += ["--set", f"{path}={value_text(value)}"]
    return ScriptCommand(captured.script, captured.arguments, "", tuple(options)), ""
