"""Write the report of the program that a model has just run."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine import model_runner
from ipu_runtime.keras.extensions.state import state_of
from ipu_runtime.reports.program_report import report_program, reports_wanted


def report_run(model: Any) -> None:
    """Start or continue the report of a program, if reports or events are wanted."""
    if not reports_wanted():
        return
    profile = model_runner.profile(model)
    reports = state_of(model).reports
    report = reports.get(profile.program)
    if report is None or report.plan != profile.plan:
        report = report_program(profile.program, profile.plan, profile.not_modelled)
        reports[profile.program] = report
    plan = profile.plan
    epochs = plan.request.epochs if plan else 0
    steps = epochs * plan.steps_per_epoch if plan else 0
    report.executed(
        executions=epochs * plan.executions_per_epoch if plan else 0,
        steps=steps,
        host_s=profile.host_step_ms * steps / 1e3,
    )
