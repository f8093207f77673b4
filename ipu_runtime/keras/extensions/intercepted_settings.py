"""Where `fit`, `evaluate` and `predict` have the settings that are wanted otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.call_settings import (
    PIPELINE_ARGUMENTS,
    intercepted,
    pipeline_settings,
)
from ipu_runtime.engine.describe.model_graph import network_of
from ipu_runtime.engine.describe.model_options import ModelOptions
from ipu_runtime.engine.run.model_runner import drop_programs
from ipu_runtime.engine.watch.interception import is_intercepted, notice
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.layer_calls import assignments_of, give_stages
from ipu_runtime.system.emulated_device import device_for

_OPTIONS = {
    "device_mapping": "device_mapping",
    "metric_reduction": "metric_reduction",
    "accumulation_reduction": "accumulation_method",
}
"""Attributes of a model's options that are settings."""
_ARGUMENTS = ("epochs", "steps_per_epoch")
"""Arguments of `fit` that are; of arrays the batch size is, too."""


def apply_intercepted(
    model: KerasModel, method: str, arguments: dict[str, Any]
) -> None:
    """Change model and arguments to what somebody outside of the script wants."""
    if not is_intercepted():
        return
    notice(f"model.{method}")
    options, training = state_of(model).options, method == "fit"
    staged = intercepted(method, training, {"stages": _stages(options)})
    if "stages" in staged:
        _assign(model, staged["stages"])
    ordered: Mapping[str, Any] = {}
    if options.pipelined:
        values = {"device_mapping": options.device_mapping}
        values |= pipeline_settings(options.pipelining_kwargs)
        ordered = intercepted(method, training, values)
    changes = intercepted(method, training, _others(model, method, arguments))
    if ordered or changes:
        _change(model, arguments, {**ordered, **changes})
        # What is cached of the model is for the options as they were.
        drop_programs(model)


def _stages(options: ModelOptions) -> list[int]:
    return [stage for _, stage in options.stages or ()]


def _assign(model: KerasModel, stages: list[int]) -> None:
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


def _others(
    model: KerasModel, method: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    options = state_of(model).options
    values: dict[str, Any] = {"metric_reduction": options.metric_reduction}
    if model.compiled:
        values["steps_per_execution"] = model.steps_per_execution
    if method == "fit":
        values["gradient_accumulation"] = getattr(options, _count_of(options)) or 1
        values["accumulation_reduction"] = options.accumulation_method
        arrays = _array(arguments.get("x")) is not None
        for name in (*_ARGUMENTS, *(("batch_size",) if arrays else ())):
            values[name] = arguments.get(name)
    return values


def _count_of(options: ModelOptions) -> str:
    return "pipeline_accumulation" if options.pipelined else "accumulation"


def _change(
    model: KerasModel, arguments: dict[str, Any], changes: Mapping[str, Any]
) -> None:
    options = state_of(model).options
    attributes = {**_OPTIONS, "gradient_accumulation": _count_of(options)}
    given = dict(options.pipelining_kwargs)
    for name, value in changes.items():
        if name in PIPELINE_ARGUMENTS:
            given[PIPELINE_ARGUMENTS[name]] = value
        elif name in attributes:
            setattr(options, attributes[name], value)
        elif name != "steps_per_execution":
            arguments[name] = value
    options.pipelining_kwargs = given
    # Last: the steps of an epoch depend on the arguments.
    steps = changes.get("steps_per_execution")
    if steps is not None:
        if steps == "epoch":
            steps = _steps_of_epoch(model, arguments)
        model.steps_per_execution = steps


def _steps_of_epoch(model: KerasModel, arguments: Mapping[str, Any]) -> int:
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
