"""An estimator's program with its plan and its report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.describe.graph_request import graph_request
from ipu_runtime.engine.describe.layer_use_reader import read_layer_uses
from ipu_runtime.engine.describe.program_plan import plan_program
from ipu_runtime.engine.run.estimator_program import EstimatorProgram, PieceRunner
from ipu_runtime.engine.watch.observer import begin_call, current_observer
from ipu_runtime.engine.watch.planned_program import ProgramPlan
from ipu_runtime.reports.program_report import ProgramReport, report_program
from ipu_runtime.system.device import Device


@dataclass(frozen=True)
class PlannedLoop:
    """A program that an estimator has built, as it is told to others."""

    program: EstimatorProgram
    name: str
    began_s: float
    """When building it began."""
    planned: ProgramPlan
    report: ProgramReport

    def runner(self, kind: str, steps: int, model: str) -> PieceRunner:
        """Tell that a call of an estimator begins; return what runs its loop.

        Args:
            kind: `train`, `evaluate` or `predict`.
            steps: Steps of the call; 0 if only the script knows.
            model: Name of the model function.
        """
        call = begin_call(kind, model, self.planned, steps=steps)
        return PieceRunner(self.program, kind, steps, self.planned.step_us, call)

    def ready(self) -> None:
        """Tell that the program is ready to run."""
        observer = current_observer()
        if observer is not None:
            seconds = time.perf_counter() - self.began_s
            observer.compiled(self.name, seconds, self.planned.compile_s)


def plan_loop(
    program: EstimatorProgram,
    name: str,
    began_s: float,
    device: Device,
    element_spec: Any,
    batches_per_loop: int,
    api: str,
) -> PlannedLoop:
    """Plan a program in the current graph; raise if the device has no room for it."""
    read = read_layer_uses(program.layer_uses)
    planned = ProgramPlan(None, None, read.reason)
    if read.spec is not None:
        request = graph_request(
            program,
            read.spec,
            read.stage_of_layer,
            device,
            element_spec=element_spec,
            batches_per_loop=batches_per_loop,
            training=name == "training",
            api=api,
        )
        planned = plan_program(name, request, device)
    report = report_program(name, planned.plan, planned.reason)
    return PlannedLoop(program, name, began_s, planned, report)
