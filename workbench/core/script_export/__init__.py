"""Experiments as scripts for the real API, which also run on the emulator."""

from __future__ import annotations

from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.script_export.estimator_script import estimator_script
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
    if spec.execution.api in ("cpu", "ipu_strategy"):
        return keras_script(spec, sequential=sequential)
    if sequential:
        raise ScriptError("--sequential: an estimator's model is a function")
    return estimator_script(spec)
