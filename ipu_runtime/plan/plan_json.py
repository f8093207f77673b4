"""A plan as plain data: what `plan --json` prints and every `plan.json` holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan

_SHOWN_OTHERWISE = ("request", "step", "layers", "stages", "memory")
_FIGURES = (
    "system",
    "ipu_step_us",
    "ipu_us_per_batch",
    "epoch_us",
    "host_us_per_step",
    "samples_per_second",
    "bubble_fraction",
    "waiting_fraction",
    "stage_imbalance",
    "memory_fraction",
    "sum_over_tiles_bytes",
    "compile_s",
    "copy_us",
    "run_us",
    "update_us",
    "all_reduce_us",
    "feed_us",
    "broadcast_us",
)
"""Null where no device is modelled."""
_OPERATIONS = ("forward_ops", "backward_ops", "update_ops")


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return a plan; all figures are modelled, and keys are only ever added."""
    content: dict[str, Any] = {
        "modelled": not plan.not_modelled,
        "system": plan.request.system,
        "request": _all_but(plan.request, ("model",)),
        "ipu_step_us": plan.ipu_step_us,
        "ipu_us_per_batch": plan.ipu_us_per_batch,
        "epoch_us": plan.epoch_us,
        "host_us_per_step": plan.step.host_us if plan.step else 0.0,
        "samples_per_second": plan.samples_per_second,
        "bubble_fraction": plan.bubble_fraction,
        "waiting_fraction": plan.waiting_fraction,
        "stage_imbalance": plan.stage_imbalance,
        "memory_fraction": plan.memory_fraction,
        "sum_over_tiles_bytes": plan.sum_over_tiles_bytes,
        "step_parts_us": plain(plan.step) or {},
        **_all_but(plan, _SHOWN_OTHERWISE),
        "layers": [_all_but(layer, _OPERATIONS) for layer in plan.layers],
        "stages": _stages(plan),
        "memory": [{**plain(item), "fits": item.fits} for item in plan.memory],
    }
    if plan.not_modelled:
        content |= dict.fromkeys(_FIGURES)
    schedule = plan.schedule
    if schedule:
        content["schedule"] = {
            "kind": schedule.kind.value,
            "micro_batches": schedule.micro_batches,
            "recomputation": schedule.recomputation.value,
            "device_mapping": list(schedule.device_mapping),
            "slots": len(schedule.slots),
            "program_steps": len(schedule.program_steps),
        }
    return content


def walks_to_json(walks: Sequence[MemoryWalk]) -> list[dict[str, Any]]:
    """Return the memory of every IPU over the steps of its program, in bytes.

    All sums are over tiles. `always_live_bytes` and the `tensor_bytes` and
    `temporary_bytes` of the step `peak_step` add up to `peak_bytes`, the `used_bytes`
    of the plan's memory; `alive_at_peak` names what the latter two are.
    """
    return [
        {
            "ipu": walk.memory.ipu,
            "always_live_bytes": walk.memory.always_live_bytes,
            "peak_bytes": walk.totals[walk.peak],
            "peak_step": walk.peak,
            "steps": [plain(step) for step in walk.steps],
            "alive_at_peak": [
                {"name": item.name, "kind": item.kind, "bytes": int(item.size)}
                for item in walk.alive
            ],
        }
        for walk in walks
    ]


def _all_but(value: Any, left_out: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a dataclass, some left out."""
    return {
        item.name: plain(getattr(value, item.name))
        for item in fields(value)
        if item.name not in left_out
    }


def _stages(plan: Plan) -> list[dict[str, Any]]:
    memory_of = {memory.ipu: memory for memory in plan.memory}
    rows = []
    for stage in plan.stages:
        memory = memory_of.get(stage.ipu)
        rows.append(
            {
                **plain(stage),
                "memory_bytes": memory.used_bytes if memory else 0,
                "capacity_bytes": memory.capacity_bytes if memory else 0,
                "fits": memory.fits if memory else True,
            }
        )
    return rows
