"""An estimator's program with its plan and its report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.layer_use_reader import read_layer_uses
from ipu_runtime.engine.describe.program_plan import plan_program
from ipu_runtime.engine.describe.program_request import (
    optimizer_among,
    program_request,
    values_per_sample,
)
from ipu_runtime.engine.run.estimator_program import EstimatorProgram, PieceRunner
from ipu_runtime.engine.watch.observer import begin_call, current_observer
from ipu_runtime.engine.watch.planned_program import ProgramPlan
from ipu_runtime.plan.request import PipelineRequest
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
        parts = tf.nest.flatten(element_spec)
        targets = element_spec[1:] if isinstance(element_spec, tuple) else None
        variables = (item.op.name for item in tf.compat.v1.global_variables())
        request = program_request(
            read.spec,
            device,
            batch_size=int(parts[0].shape[0]) if parts[0].shape.rank else 1,
            batches=batches_per_loop * program.replicas,
            steps_per_execution=batches_per_loop,
            label_values=values_per_sample(targets),
            optimizer=optimizer_among(variables) if name == "training" else None,
            accumulation=program.accumulation,
            sums_micro_batches=program.sums_micro_batches,
            pipeline=_pipeline(program, read.stage_of_layer),
            api=api,
        )
        planned = plan_program(name, request, device)
    report = report_program(name, planned.plan, planned.reason)
    return PlannedLoop(program, name, began_s, planned, report)


def _pipeline(
    program: EstimatorProgram, stage_of_layer: tuple[int, ...]
) -> PipelineRequest | None:
    schedule = program.schedule
    if schedule is None or not stage_of_layer:
        return None
    return PipelineRequest(
        stage_of_layer,
        schedule.kind,
        schedule.recomputation,
        schedule.device_mapping,
        **program.placements,
    )
