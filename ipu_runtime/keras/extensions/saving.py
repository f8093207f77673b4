"""The IPU options of a model as entries of its Keras configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime.engine.describe.model_options import (
    ModelOptions,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod

ASSIGNMENT_KEY = "pipeline_stage_assignment"
VALID_KEY = "pipeline_stage_assignment_valid"

_PLAIN_KEYS = {
    "gradient_accumulation_steps_per_replica": "accumulation",
    "asynchronous_callbacks": "asynchronous_callbacks",
    "pipelining_gradient_accumulation_steps_per_replica": "pipeline_accumulation",
    "pipelining_accumulate_outfeed": "accumulate_outfeed",
    "infeed_kwargs": "infeed_kwargs",
    "outfeed_kwargs": "outfeed_kwargs",
}
CONFIG_KEYS = (
    *_PLAIN_KEYS,
    "gradient_accumulation_reduction_method",
    "replicated_metric_reduction_method",
    "pipelining_device_mapping",
    ASSIGNMENT_KEY,
    VALID_KEY,
)


def options_to_config(options: ModelOptions) -> dict[str, Any]:
    """Return what is saved of the options."""
    config = {key: getattr(options, name) for key, name in _PLAIN_KEYS.items()}
    config["gradient_accumulation_reduction_method"] = options.accumulation_method.value
    config["replicated_metric_reduction_method"] = options.metric_reduction.value
    mapping = options.device_mapping
    config["pipelining_device_mapping"] = None if mapping is None else list(mapping)
    return config


def options_from_config(options: ModelOptions, config: Mapping[str, Any]) -> None:
    """Take over what was saved of the options."""
    for key, name in _PLAIN_KEYS.items():
        if key in config:
            setattr(options, name, config[key])
    if "gradient_accumulation_reduction_method" in config:
        options.accumulation_method = GradientAccumulationReductionMethod(
            config["gradient_accumulation_reduction_method"]
        )
    if "replicated_metric_reduction_method" in config:
        options.metric_reduction = ReplicatedMetricReductionMethod(
            config["replicated_metric_reduction_method"]
        )
    mapping = config.get("pipelining_device_mapping")
    if mapping is not None:
        options.device_mapping = tuple(mapping)


def calls_to_config(operations: Sequence[Any], assignments: Sequence[Any]) -> list[Any]:
    """Return (layer index, index of its call, stage or inner assignment) per call."""
    saved = []
    for position, call, assignment in _positions(operations, assignments):
        if assignment.is_nested_model:
            inner: Any = stages_to_config(assignment.pipeline_stage_assignments)
        else:
            inner = assignment.pipeline_stage
        saved.append([position, call, inner])
    return saved


def calls_from_config(
    operations: Sequence[Any], assignments: Sequence[Any], saved: Sequence[Any]
) -> None:
    """Give every call of a graph the stage that was saved for it."""
    stages = {(position, call): stage for position, call, stage in saved}
    for position, call, assignment in _positions(operations, assignments):
        _restore(assignment, stages[position, call])


def stages_to_config(assignments: Sequence[Any]) -> list[Any]:
    """Return the stages in order, those of a nested model as a list."""
    return [
        stages_to_config(item.pipeline_stage_assignments)
        if item.is_nested_model
        else item.pipeline_stage
        for item in assignments
    ]


def stages_from_config(assignments: Sequence[Any], saved: Sequence[Any]) -> None:
    """Give every layer the stage that was saved for it."""
    for assignment, stage in zip(assignments, saved, strict=True):
        _restore(assignment, stage)


def _restore(assignment: Any, saved: Any) -> None:
    if assignment.is_nested_model:
        stages_from_config(assignment.pipeline_stage_assignments, saved)
    else:
        assignment.pipeline_stage = saved


def _positions(
    operations: Sequence[Any], assignments: Sequence[Any]
) -> list[tuple[int, int, Any]]:
    position_of = {id(operation): index for index, operation in enumerate(operations)}
    seen: Counter[int] = Counter()
    positions = []
    for assignment in assignments:
        layer = (
            assignment.nested_model if assignment.is_nested_model else assignment.layer
        )
        positions.append((position_of[id(layer)], seen[id(layer)], assignment))
        seen[id(layer)] += 1
    return positions
