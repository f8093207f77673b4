"""What else changes with the number of stages: micro-batches, IPUs and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.hardware import find_system
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.core.editing.draft import blocking_problems, with_values
from workbench.core.editing.stage_moves import Stages
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.topology import topology
from workbench.core.experiment.validation import understood
from workbench.core.planning.staged_spec import changed_values, staged_spec

_PLAIN_API = {"ipu_pipeline_estimator": "ipu_estimator"}
"""What to use instead of an interface that needs a pipeline."""


def staged_values(tables: Mapping[str, Any], stages: Stages) -> dict[str, Any]:
    """Return the fields that other stages change, with all that those ask for.

    Replicas stay as many as the system has room for, and micro-batches as near to
    what they were as the schedule allows; fewer of both where the data are too few.
    """
    spec = understood(tables)
    choices = [changed_values(spec, choice) for choice in _choices(spec, stages)]
    return next((values for values in choices if _runs(tables, values)), choices[0])


def _runs(tables: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    problems = blocking_problems(with_values(tables, values))
    return all(item.severity is not Severity.ERROR for item in problems)


def _choices(spec: ExperimentSpec, stages: Stages) -> Iterator[ExperimentSpec]:
    count = max(stages) + 1
    per_replica = 1 << (count - 1).bit_length()
    system = find_system(spec.execution.system)
    room = max(system.ipus // per_replica, 1) if system else 1
    replicas = max(min(topology(spec).replicas, 1 << (room.bit_length() - 1)), 1)
    while replicas:
        ipus = _with_ipus(spec, per_replica * replicas)
        if count == 1:
            yield _without_pipeline(ipus)
        else:
            kept = len(spec.pipeline.device_mapping) == count
            mapping = spec.pipeline.device_mapping if kept else tuple(range(count))
            kind = ScheduleKind(spec.pipeline.schedule)
            overlap = overlap_length(kind, mapping, training=True)
            for accumulation in _multiples(
                spec.execution.gradient_accumulation, overlap
            ):
                execution = replace(ipus.execution, gradient_accumulation=accumulation)
                yield staged_spec(replace(ipus, execution=execution), stages)
        replicas //= 2


def _multiples(now: int, overlap: int) -> tuple[int, ...]:
    """Return what to try: the nearest, one more for I/O tiles, and the fewest."""
    below = now // overlap * overlap
    near = below if below and now - below < overlap - (now - below) else below + overlap
    near = now if not now % overlap else near
    return near, near + overlap, overlap


def _with_ipus(spec: ExperimentSpec, ipus: int) -> ExperimentSpec:
    if not isinstance(spec.ipu.get("auto_select_ipus", 1), int):
        return spec
    return replace(spec, ipu={**spec.ipu, "auto_select_ipus": ipus})


def _without_pipeline(spec: ExperimentSpec) -> ExperimentSpec:
    pipeline = replace(spec.pipeline, stages=(), device_mapping=())
    api = _PLAIN_API.get(spec.execution.api, spec.execution.api)
    return replace(spec, pipeline=pipeline, execution=replace(spec.execution, api=api))
