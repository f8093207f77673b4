"""A plan as the object that `plan --json` prints; keys are only ever added."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ipu_runtime.plan.plan import Plan, StagePlan
from ipu_runtime.plan.problem import Problem


def plan_row(plan: Plan, name: str = "") -> dict[str, Any]:
    """Return the figures of a plan; all of them are modelled."""
    row: dict[str, Any] = {
        "event": "plan",
        "preset": name,
        "modelled": True,
        "system": plan.request.system,
        "replicas": plan.replicas,
        "ipus": plan.ipus,
        "ipus_per_replica": plan.ipus_per_replica,
        "ipu_step_us": plan.ipu_step_us,
        "ipu_us_per_batch": plan.ipu_us_per_batch,
        "host_us_per_step": plan.step.host_us if plan.step else 0.0,
        "samples_per_second": plan.samples_per_second,
        "bubble_fraction": plan.bubble_fraction,
        "waiting_fraction": plan.waiting_fraction,
        "step_parts_us": asdict(plan.step) if plan.step else {},
        "steps_per_epoch": plan.steps_per_epoch,
        "steps_per_execution": plan.steps_per_execution,
        "executions_per_epoch": plan.executions_per_epoch,
        "updates_per_epoch": plan.updates_per_epoch,
        "batches_dropped": plan.batches_dropped,
        "compile_s": plan.compile_s,
        "stages": [_stage(stage, plan) for stage in plan.stages],
        "memory": [
            {
                "ipu": memory.ipu,
                "used_bytes": memory.used_bytes,
                "capacity_bytes": memory.capacity_bytes,
                "fullest_tile_bytes": memory.fullest_tile_bytes,
                "tile_capacity_bytes": memory.tile_capacity_bytes,
                "fits": memory.fits,
                "by_category": dict(memory.by_category),
            }
            for memory in plan.memory
        ],
        "problems": [problem_row(problem) for problem in plan.problems],
    }
    if plan.schedule:
        row["schedule"] = {
            "kind": plan.schedule.kind.value,
            "micro_batches": plan.schedule.micro_batches,
            "recomputation": plan.schedule.recomputation.value,
            "device_mapping": list(plan.schedule.device_mapping),
            "slots": len(plan.schedule.slots),
            "program_steps": len(plan.schedule.program_steps),
        }
    return row


def problem_row(problem: Problem) -> dict[str, Any]:
    """Return a problem as an object."""
    return {
        "where": problem.where,
        "problem": problem.problem,
        "hint": problem.hint,
        "severity": problem.severity.value,
        "exception": problem.exception,
        "suggestion": problem.suggestion,
    }


def _stage(stage: StagePlan, plan: Plan) -> dict[str, Any]:
    memory = next((item for item in plan.memory if item.ipu == stage.ipu), None)
    return {
        "index": stage.index,
        "ipu": stage.ipu,
        "layers": list(stage.layers),
        "forward_us": stage.forward_us,
        "backward_us": stage.backward_us,
        "recompute_us": stage.recompute_us,
        "update_us": stage.update_us,
        "fifo_depth": stage.fifo_depth,
        "stash_bytes": stage.stash_bytes,
        "memory_bytes": memory.used_bytes if memory else 0,
        "capacity_bytes": memory.capacity_bytes if memory else 0,
        "fits": memory.fits if memory else True,
    }
