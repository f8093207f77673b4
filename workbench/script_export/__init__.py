"""Experiments as scripts for the real API, which also run on the emulator."""

from __future__ import annotations

from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.rules.request_checks import check_request
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.experiment_plan import plan_request
from workbench.script_export.estimator_script import estimator_script
from workbench.script_export.keras_script import keras_script
from workbench.script_export.script_error import ScriptError

__all__ = ["ScriptError", "export_script"]


def export_script(spec: ExperimentSpec, *, sequential: bool = False) -> str:
    """Return the experiment as a script; raises ScriptError where that cannot be.

    Args:
        spec: The experiment.
        sequential: Write the model with the Sequential API, which assigns pipeline
            stages with `set_pipeline_stage_assignment`.
    """
    if spec.pipeline.stages:
        _check_stages(spec)
    if spec.execution.api in ("cpu", "ipu_strategy"):
        return keras_script(spec, sequential=sequential)
    if sequential:
        raise ScriptError("--sequential: an estimator's model is a function")
    if spec.execution.instances > 1:
        raise ScriptError(
            f"execution.instances: {spec.execution.instances} is not written into an "
            "estimator's script; use 1, or execution.api = ipu_strategy"
        )
    return estimator_script(spec)


def _check_stages(spec: ExperimentSpec) -> None:
    """Refuse stages that do not suit the layers: there is no script for them."""
    for problem in check_request(plan_request(spec)):
        about_stages = problem.where.startswith("pipeline")
        if about_stages and problem.severity is Severity.ERROR:
            raise ScriptError(str(problem))
