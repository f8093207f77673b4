"""An experiment with other stages, and everything else that those stages ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.hardware import find_system, systems
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import set_value
from workbench.experiment.tables import field_value, spec_value
from workbench.experiment.toml_text import toml_value
from workbench.experiment.topology import selected_ipus
from workbench.planning.same_training import shared_out, with_batch_size

_PIPELINED_API = {"cpu": "ipu_strategy", "ipu_estimator": "ipu_pipeline_estimator"}
"""What to use instead of an interface that has no pipelines."""
_PLAIN_API = {"cpu": "ipu_strategy", "ipu_pipeline_estimator": "ipu_estimator"}
"""And instead of one that has nothing else."""
_FIELDS = (
    "data.batch_size",
    "data.train_samples",
    "data.test_samples",
    "pipeline.stages",
    "pipeline.schedule",
    "pipeline.recomputation",
    *(f"pipeline.{name}" for name in PLACEMENTS),
    "pipeline.device_mapping",
    "execution.api",
    "execution.system",
    "execution.gradient_accumulation",
    "execution.accumulation_reduction",
    "train.learning_rate",
    "execution.steps_per_execution",
    "train.steps_per_epoch",
    "data.preparation",
    "ipu.auto_select_ipus",
    "ipu.allow_recompute",
    "ipu.io_tiles.num_io_tiles",
    "ipu.io_tiles.place_ops_on_io_tiles",
    "ipu.convolutions.poplar_options",
    "ipu.matmuls.poplar_options",
)
"""What balancing or searching may change."""


def staged_spec(
    spec: ExperimentSpec, stages: tuple[int, ...], samples: int = 0
) -> ExperimentSpec:
    """Return the experiment with these stages and the counts that they need.

    No stages mean no pipeline. Weight updates have as many samples as asked for, or
    the nearest that there can be; with 0 the micro-batch stays as it is.
    """
    pipeline, batch_size = replace(spec.pipeline, stages=stages), spec.data.batch_size
    number = max(stages, default=0) + 1
    if len(pipeline.device_mapping) != number or not stages:
        pipeline = replace(pipeline, device_mapping=())
    mapping = pipeline.device_mapping or tuple(range(number))
    overlap = 1
    if stages:
        overlap = overlap_length(ScheduleKind(pipeline.schedule), mapping, True)
    accumulation = spec.execution.gradient_accumulation
    accumulation = max(1, -(-accumulation // overlap)) * overlap
    needed = 1 << max(mapping).bit_length()
    ipus = max(selected_ipus(spec), needed)
    if samples and not spec.train.test_only:
        io_tiles = bool(stages and spec.ipu.get("io_tiles.num_io_tiles"))
        least = overlap + 2 * io_tiles
        size, accumulation = shared_out(
            samples, ipus // needed, batch_size, overlap, least
        )
        spec = with_batch_size(spec, size)
    replicas = ipus // needed
    train, data, ipu = spec.train, spec.data, spec.ipu
    if train.steps_per_epoch % (accumulation * replicas):
        unit = accumulation * replicas
        whole = max(train.steps_per_epoch // unit, 1) * unit
        train = replace(train, steps_per_epoch=whole)
    steps = spec.execution.steps_per_execution
    if isinstance(steps, int):
        # As many samples as before, for every execution costs the host the same.
        updates = -(-steps * batch_size // (data.batch_size * accumulation))
        steps = updates * accumulation
        if train.steps_per_epoch % (steps * replicas):
            steps = "epoch"
    now = spec.execution
    execution = replace(
        now,
        api=(_PIPELINED_API if stages else _PLAIN_API).get(now.api, now.api),
        system=_large_enough(now.system, ipus),
        gradient_accumulation=accumulation,
        steps_per_execution=steps,
    )
    if data.preparation == "none":
        data = replace(data, preparation="trim")
    if ipus != selected_ipus(spec):
        ipu = {**spec.ipu, "auto_select_ipus": ipus}
    return replace(
        spec, pipeline=pipeline, execution=execution, train=train, data=data, ipu=ipu
    )


def without_pipeline(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment's tables without stages, under an interface that can."""
    tables = set_value(tables, "pipeline.stages", [])
    api = field_value(tables, "execution.api")
    if api == "ipu_pipeline_estimator":
        tables = set_value(tables, "execution.api", _PLAIN_API[api])
    return tables


def changed_values(before: ExperimentSpec, after: ExperimentSpec) -> dict[str, Any]:
    """Return the fields that differ between two experiments, with their new values."""
    values = {path: spec_value(after, path) for path in _FIELDS}
    return {
        path: list(value) if isinstance(value, tuple) else value
        for path, value in values.items()
        if value != spec_value(before, path)
    }


def set_arguments(before: ExperimentSpec, after: ExperimentSpec) -> tuple[str, ...]:
    """Return what differs between two experiments, as `--set` takes it."""
    return tuple(
        f"{path}={value if isinstance(value, str) else toml_value(value)}"
        for path, value in changed_values(before, after).items()
    )


def _large_enough(name: str, ipus: int) -> str:
    """Return the smallest system with the same chip that has so many IPUs."""
    system = find_system(name)
    if system is None or system.ipus >= ipus:
        return name
    larger = [s for s in systems() if s.ipu is system.ipu and s.ipus >= ipus]
    return min(larger, key=lambda other: other.ipus).name if larger else name
