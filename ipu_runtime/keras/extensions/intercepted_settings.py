"""Settings of `fit`, `evaluate` and `predict` that somebody outside wants otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.model_graph import network_of
from ipu_runtime.engine.describe.model_options import (
    ModelOptions,
    PipelineSchedule,
    RecomputationMode,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.run.model_runner import drop_programs
from ipu_runtime.engine.watch.interception import changed_settings, notice
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.layer_calls import assignments_of, give_stages
from ipu_runtime.plan.placements import PLACEMENTS, placements
from ipu_runtime.system.emulated_device import device_for

_ARGUMENTS = {"epochs": 1, "steps_per_epoch": 0, "batch_size": 32}
"""Arguments of `fit` that are settings, and what leaving them out means."""


def apply_intercepted(model: Any, method: str, arguments: dict[str, Any]) -> None:
    """Change model and arguments to what somebody outside of the script wants."""
    notice(f"model.{method}")
    options, training = state_of(model).options, method == "fit"
    staged = changed_settings(method, training, {"stages": _stages(options)})
    if "stages" in staged:
        _assign(model, staged["stages"])
    ordered: Mapping[str, Any] = {}
    if options.pipelined:
        ordered = changed_settings(method, training, _pipeline_settings(options))
        _change_pipeline(options, ordered)
    changes = changed_settings(method, training, _settings(model, method, arguments))
    _change(model, options, arguments, changes)
    if ordered or changes:
        # What is kept of the model is for the options as they were.
        drop_programs(model)


def _stages(options: ModelOptions) -> list[int]:
    return [stage for _, stage in options.stages or ()]


def _assign(model: Any, stages: list[int]) -> None:
    if not stages:
        model.reset_pipeline_stage_assignment()
        return
    network = state_of(model).network
    known = isinstance(model, keras.Sequential) or network_of(model) is not None
    if network is None and not known:
        raise ValueError(
            f"The layer calls of {model.name} ({type(model).__name__}) are not known "
            "before it runs: give them stages inside of its `call`."
        )
    assignments = assignments_of(model, network)
    give_stages(model, assignments, stages, network)
    model.set_pipeline_stage_assignment(assignments)
    options = state_of(model).options
    options.pipeline_accumulation = options.pipeline_accumulation or (
        options.accumulation
    )


def _pipeline_settings(options: ModelOptions) -> dict[str, Any]:
    given = options.pipelining_kwargs
    schedule = given.get("pipeline_schedule") or PipelineSchedule.Grouped
    mode = given.get("recomputation_mode") or RecomputationMode.Auto
    return {
        "schedule": schedule.name,
        "recomputation": mode.name,
        "device_mapping": list(options.device_mapping or ()),
        **placements(given),
    }


def _change_pipeline(options: ModelOptions, changes: Mapping[str, Any]) -> None:
    given = dict(options.pipelining_kwargs)
    if "schedule" in changes:
        given["pipeline_schedule"] = PipelineSchedule[changes["schedule"]]
    if "recomputation" in changes:
        given["recomputation_mode"] = RecomputationMode[changes["recomputation"]]
    given |= {name: changes[name] for name in PLACEMENTS if name in changes}
    options.pipelining_kwargs = given
    if "device_mapping" in changes:
        options.device_mapping = tuple(changes["device_mapping"]) or None


def _settings(model: Any, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    options = state_of(model).options
    settings: dict[str, Any] = {
        "metric_reduction": options.metric_reduction.name.lower()
    }
    if model.compiled:
        settings["steps_per_execution"] = model.steps_per_execution
    if method == "fit":
        count = (
            options.pipeline_accumulation if options.pipelined else options.accumulation
        )
        settings["gradient_accumulation"] = count or 1
        settings["accumulation_reduction"] = options.accumulation_method.name.lower()
        for name, default in _ARGUMENTS.items():
            if name != "batch_size" or _array(arguments.get("x")) is not None:
                settings[name] = arguments.get(name) or default
    return settings


def _change(
    model: Any,
    options: ModelOptions,
    arguments: dict[str, Any],
    changes: Mapping[str, Any],
) -> None:
    arguments.update(
        {name: changes[name] or None for name in _ARGUMENTS if name in changes}
    )
    if "gradient_accumulation" in changes:
        if options.pipelined:
            options.pipeline_accumulation = changes["gradient_accumulation"]
        else:
            options.accumulation = changes["gradient_accumulation"]
    if "accumulation_reduction" in changes:
        options.accumulation_method = GradientAccumulationReductionMethod.parse(
            changes["accumulation_reduction"]
        )
    if "metric_reduction" in changes:
        options.metric_reduction = ReplicatedMetricReductionMethod.parse(
            changes["metric_reduction"]
        )
    if "steps_per_execution" in changes:
        steps = changes["steps_per_execution"]
        model.steps_per_execution = (
            _steps_of_epoch(model, arguments) if steps == "epoch" else steps
        )


def _steps_of_epoch(model: Any, arguments: Mapping[str, Any]) -> int:
    """Return how many steps every replica makes in an epoch."""
    batches = arguments.get("steps_per_epoch") or arguments.get("steps")
    if not batches:
        x, array = arguments.get("x"), _array(arguments.get("x"))
        if array is not None:
            used = len(array) * (1 - (arguments.get("validation_split") or 0.0))
            batches = int(used) // (arguments.get("batch_size") or 32)
        else:
            cardinality = getattr(x, "cardinality", None)
            batches = int(cardinality()) if cardinality else 0
    if batches < 1:
        raise ValueError(
            "The batches of an epoch are not known: give steps_per_execution a number."
        )
    state = state_of(model)
    shards = state.options.shard_count
    replicas = max(1, device_for(state.strategy, shards).replicas(shards))
    return max(1, int(batches) // replicas)


def _array(x: Any) -> Any:
    """Return the first array of data that are given as arrays, or None."""
    if isinstance(x, tf.data.Dataset):
        return None
    first = next(iter(keras.tree.flatten(x)), None)
    return first if hasattr(first, "shape") and hasattr(first, "__len__") else None
