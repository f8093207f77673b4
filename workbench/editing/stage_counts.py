"""What else changes with the number of stages: micro-batches, IPUs and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.hardware import find_system
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.editing.draft import blocking_problems, with_values
from workbench.editing.stage_moves import Stages
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.experiment.validation import understood
from workbench.planning.same_training import same_rate, update_samples
from workbench.planning.staged_spec import changed_values, staged_spec


def staged_values(tables: Mapping[str, Any], stages: Stages) -> dict[str, Any]:
    """Return the fields that other stages change, with all that those ask for.

    Replicas stay as many as the system has room for. Weight updates keep their samples
    where the schedule can, and their effective learning rate; where the data are too
    few there are fewer replicas and micro-batches.
    """
    spec = understood(tables)
    choices = (
        changed_values(spec, same_rate(spec, choice))
        for choice in _choices(spec, stages)
    )
    first = next(choices)
    rest = (values for values in (first, *choices) if _runs(tables, values))
    return next(rest, first)


def _runs(tables: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    problems = blocking_problems(with_values(tables, values))
    return all(item.severity is not Severity.ERROR for item in problems)


def _choices(spec: ExperimentSpec, stages: Stages) -> Iterator[ExperimentSpec]:
    count, samples = max(stages) + 1, update_samples(spec)
    per_replica = 1 << (count - 1).bit_length()
    system = find_system(spec.execution.system)
    room = max(system.ipus // per_replica, 1) if system else 1
    replicas = max(min(topology(spec).replicas, 1 << (room.bit_length() - 1)), 1)
    while replicas:
        ipus = _with_ipus(spec, per_replica * replicas)
        if count == 1 and spec.execution.api == "cpu":
            yield replace(ipus, pipeline=replace(spec.pipeline, stages=()))
        elif count == 1:
            yield staged_spec(ipus, (), samples)
        else:
            yield staged_spec(ipus, stages, samples)
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
