"""An experiment with other stages, and everything else that those stages ask for."""

from __future__ import annotations

import json
from dataclasses import replace

from ipu_runtime.plan.hardware import find_system, systems
from ipu_runtime.plan.schedule import ScheduleKind
from ipu_runtime.plan.schedules import overlap_length
from workbench.core.experiment_spec import Execution, ExperimentSpec
from workbench.core.tables import spec_value
from workbench.core.topology import selected_ipus

_PIPELINED_API = {"cpu": "ipu_strategy", "ipu_estimator": "ipu_pipeline_estimator"}
"""What to use instead of an interface that has no pipelines."""
_FIELDS = (
    "pipeline.stages",
    "pipeline.device_mapping",
    "execution.api",
    "execution.system",
    "execution.gradient_accumulation",
    "execution.steps_per_execution",
    "train.steps_per_epoch",
    "data.preparation",
    "ipu.auto_select_ipus",
)


def staged_spec(spec: ExperimentSpec, stages: tuple[int, ...]) -> ExperimentSpec:
    """Return the experiment with these stages and the counts that they need."""
    pipeline = replace(spec.pipeline, stages=stages)
    if len(pipeline.device_mapping) != max(stages) + 1:
        pipeline = replace(pipeline, device_mapping=())
    mapping = pipeline.device_mapping or tuple(range(max(stages) + 1))
    overlap = overlap_length(ScheduleKind(pipeline.schedule), mapping, True)
    accumulation = spec.execution.gradient_accumulation
    accumulation = max(1, -(-accumulation // overlap)) * overlap
    needed = 1 << max(mapping).bit_length()
    ipus = max(selected_ipus(spec), needed)
    execution = _execution(spec.execution, accumulation, ipus)
    unit = accumulation * (ipus // needed)
    train, data, ipu = spec.train, spec.data, spec.ipu
    if train.steps_per_epoch % unit:
        whole = max(train.steps_per_epoch // unit, 1) * unit
        train = replace(train, steps_per_epoch=whole)
    if data.preparation == "none":
        data = replace(data, preparation="trim")
    if ipus != selected_ipus(spec):
        ipu = {**spec.ipu, "auto_select_ipus": ipus}
    return replace(
        spec, pipeline=pipeline, execution=execution, train=train, data=data, ipu=ipu
    )


def changed_fields(before: ExperimentSpec, after: ExperimentSpec) -> tuple[str, ...]:
    """Return what differs between two experiments, as `--set` takes it."""
    changes = []
    for path in _FIELDS:
        old, new = spec_value(before, path), spec_value(after, path)
        if new != old:
            text = new if isinstance(new, str) else json.dumps(new)
            changes.append(f"{path}={text}")
    return tuple(changes)


def _execution(now: Execution, accumulation: int, ipus: int) -> Execution:
    steps = now.steps_per_execution
    if isinstance(steps, int) and steps % accumulation:
        steps = "epoch"
    return replace(
        now,
        api=_PIPELINED_API.get(now.api, now.api),
        system=_large_enough(now.system, ipus),
        gradient_accumulation=accumulation,
        steps_per_execution=steps,
    )


def _large_enough(name: str, ipus: int) -> str:
    """Return the smallest system with the same chip that has so many IPUs."""
    system = find_system(name)
    if system is None or system.ipus >= ipus:
        return name
    larger = [s for s in systems() if s.ipu is system.ipu and s.ipus >= ipus]
    return min(larger, key=lambda other: other.ipus).name if larger else name
