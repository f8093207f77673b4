"""What the plan says about an estimator's program, and its report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.clock import check_room
from ipu_runtime.engine.device import Device
from ipu_runtime.engine.estimator_program import EstimatorProgram
from ipu_runtime.engine.layer_use_reader import ReadLayers, read_layer_uses
from ipu_runtime.engine.observer import current_observer
from ipu_runtime.plan.plan import PipelineRequest, Plan, PlanRequest
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.reports.program_report import ProgramReport, report_program

_SLOTS = {"RMSProp": "rmsprop", "Adam": "adam", "Momentum": "momentum"}
"""Optimizers by the name that they give to their variables."""


@dataclass
class ProgramModel:
    """A program with its modelled figures."""

    name: str
    started: float
    plan: Plan | None
    report: ProgramReport

    @property
    def ipu_step_us(self) -> float:
        """Modelled time of one step on one replica; 0 if unknown."""
        return self.plan.ipu_step_us if self.plan else 0.0

    def ready(self) -> None:
        """Tell that the program is ready to run."""
        observer = current_observer()
        if observer is not None:
            seconds = time.perf_counter() - self.started
            compile_s = self.plan.compile_s if self.plan else 0.0
            observer.compiled(self.name, seconds, compile_s)

    def executed(self, executions: int, batches: int, seconds: float) -> None:
        """Add what running it took to the report."""
        self.report.executed(executions=executions, steps=batches, host_s=seconds)


def model_program(
    program: EstimatorProgram,
    name: str,
    element_spec: Any,
    device: Device,
    batches_per_loop: int,
    started: float,
) -> ProgramModel:
    """Plan a program that was just built; raise if the device has no room for it."""
    read = read_layer_uses(program.layer_uses)
    plan, reason = None, read.reason
    if read.spec is not None:
        plan = make_plan(
            _request(program, name, read, element_spec, device, batches_per_loop)
        )
        if device.check_memory:
            check_room(plan)
        if plan.step is None:
            reason = "; ".join(str(problem) for problem in plan.problems)
            plan = None
    return ProgramModel(name, started, plan, report_program(name, plan, reason))


def _request(
    program: EstimatorProgram,
    name: str,
    read: ReadLayers,
    element_spec: Any,
    device: Device,
    batches_per_loop: int,
) -> PlanRequest:
    assert read.spec is not None
    parts = tf.nest.flatten(element_spec)
    labels = (
        tf.nest.flatten(element_spec[1:]) if isinstance(element_spec, tuple) else []
    )
    training = name == "training"
    pipeline = None
    if program.schedule is not None and read.stage_of_layer:
        pipeline = PipelineRequest(
            read.stage_of_layer,
            program.schedule.kind,
            program.schedule.recomputation,
            program.schedule.device_mapping,
        )
    return PlanRequest(
        model=read.spec,
        batch_size=int(parts[0].shape[0]) if parts[0].shape.rank else 1,
        batches=batches_per_loop * program.replicas,
        label_values=sum(int(part.shape[1:].num_elements() or 1) for part in labels),
        steps_per_execution=batches_per_loop,
        gradient_accumulation=program.batches_per_unit if training else 1,
        optimizer=_optimizer() if training else "sgd",
        training=training,
        ipus=device.ipus,
        system=device.system,
        hardware_file=device.hardware_file,
        pipeline=pipeline,
        config=device.config,
    )


def _optimizer() -> str:
    """Return the optimizer of the current graph, told by its variables."""
    names = " ".join(item.op.name for item in tf.compat.v1.global_variables())
    return next((kind for slot, kind in _SLOTS.items() if f"/{slot}" in names), "sgd")
