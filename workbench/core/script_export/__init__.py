"""Experiments as scripts for the real API, which also run on the emulator."""

from __future__ import annotations

from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.script_export.keras_script import keras_script
from workbench.core.script_export.parts import ScriptError

__all__ = ["ScriptError", "export_script"]


def export_script(spec: ExperimentSpec, *, sequential: bool = False) -> str:
    """Return the experiment as a script; raises ScriptError where that cannot be.

    Args:
        spec: The experiment.
        sequential: Write the model with the Sequential API, which assigns pipeline
            stages with `set_pipeline_stage_assignment`.
    """
    return keras_script(spec, sequential=sequential)
