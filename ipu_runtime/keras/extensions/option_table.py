"""The options of extended models: what checks, stores and saves each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.model_options import (
    GradientAccumulationReductionMethod,
    ModelOptions,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.run.model_runner import drop_programs
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.plan.rules.count_rules import ACCUMULATION, check_positive

_BY_KERAS = "automatically set by Keras"
_NOT_WITH_KERAS = "not compatible with Keras"
_NORMALIZED = {
    "experimental_normalize_gradients": (
        "no longer available: set `gradient_accumulation_reduction_method` to 'mean'"
    )
}


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Option:
    """One row: an option of `ModelOptions`, by its name there."""

    checked: Callable[[Any], Any] = _unchanged
    """From what a setter gets to what is stored; raises if it is not valid."""
    saved_as: str = ""
    """Its entry in a model's Keras configuration; empty: it is not saved."""
    to_saved: Callable[[Any], Any] = _unchanged
    from_saved: Callable[[Any], Any] = _unchanged
    rebuilds: bool = True
    """Whether programs that are built already do not fit another value."""


def _count(steps: Any) -> Any:
    if steps is not None:
        name = "gradient_accumulation_steps_per_replica"
        raise_for(check_positive(name, steps, ACCUMULATION))
    return steps


def _mapping(mapping: Any) -> Any:
    if mapping is None:
        return None
    valid = isinstance(mapping, list) and all(isinstance(ipu, int) for ipu in mapping)
    if not valid:
        raise ValueError(
            "Expected `device_mapping` to be a list of integers, one IPU per pipeline "
            f"stage, but received {mapping!r} instead."
        )
    return tuple(mapping)


def _pipelining_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_count(kwargs, "gradient_accumulation_count", "pipelining_kwargs")
    set_by_keras = (
        "computational_stages",
        "repeat_count",
        "inputs",
        "infeed_queue",
        "outfeed_queue",
        "optimizer_function",
    )
    without = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")
    _refuse(kwargs, set_by_keras, _BY_KERAS)
    _refuse(kwargs, without, _NOT_WITH_KERAS)
    for name, why in _NORMALIZED.items():
        _refuse(kwargs, (name,), why)
    return {"gradient_accumulation_for_captured_grads": False, **kwargs}


def _accumulation_kwargs(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    _refuse(kwargs, ("opt",), _BY_KERAS)
    _refuse_count(kwargs, "num_mini_batches", "gradient_accumulation_optimizer_kwargs")
    for name, why in _NORMALIZED.items():
        _refuse(kwargs, (name,), why)
    return kwargs


def _infeed_kwargs(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    names = ("dataset", "infeed_spec", "element_spec", "_internal_id")
    _refuse(kwargs, names, _BY_KERAS)
    IPUInfeedQueue(tf.data.Dataset.from_tensors(0), **kwargs)  # It checks the others.
    return kwargs


def _outfeed_kwargs(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    _refuse(kwargs, ("outfeed_mode", "device_ordinal"), _NOT_WITH_KERAS)
    IPUOutfeedQueue(**kwargs)
    return kwargs


def _refuse_count(kwargs: Mapping[str, Any], name: str, where: str) -> None:
    if name in kwargs:
        raise ValueError(
            f"Found `{name}` in `{where}`. Set "
            "`gradient_accumulation_steps_per_replica` instead."
        )


def _refuse(kwargs: Mapping[str, Any], names: Iterable[str], why: str) -> None:
    for name in names:
        if name in kwargs:
            raise ValueError(f"Found `{name}` among the arguments: it is {why}.")


OPTIONS: Mapping[str, Option] = {
    "accumulation": Option(_count, "gradient_accumulation_steps_per_replica"),
    "asynchronous_callbacks": Option(saved_as="asynchronous_callbacks", rebuilds=False),
    "pipeline_accumulation": Option(
        _count, "pipelining_gradient_accumulation_steps_per_replica"
    ),
    "device_mapping": Option(
        _mapping,
        "pipelining_device_mapping",
        lambda ipus: None if ipus is None else list(ipus),
        lambda ipus: None if ipus is None else tuple(ipus),
    ),
    "accumulate_outfeed": Option(saved_as="pipelining_accumulate_outfeed"),
    "pipelining_kwargs": Option(_pipelining_kwargs),
    "accumulation_kwargs": Option(_accumulation_kwargs),
    "accumulation_method": Option(
        GradientAccumulationReductionMethod.parse,
        "gradient_accumulation_reduction_method",
        lambda method: method.value,
        GradientAccumulationReductionMethod,
    ),
    "metric_reduction": Option(
        ReplicatedMetricReductionMethod.parse,
        "replicated_metric_reduction_method",
        lambda method: method.value,
        ReplicatedMetricReductionMethod,
        rebuilds=False,
    ),
    "infeed_kwargs": Option(_infeed_kwargs, "infeed_kwargs"),
    "outfeed_kwargs": Option(_outfeed_kwargs, "outfeed_kwargs"),
}
"""Every option that a setter takes; `ModelOptions` says what each of them means."""
_SAVED = {name: option for name, option in OPTIONS.items() if option.saved_as}
SAVED_OPTIONS = tuple(option.saved_as for option in _SAVED.values())


def set_options(model: KerasModel, **given: Any) -> None:
    """Store options of a model; None leaves one as it is. Nothing if one is invalid."""
    checked = {name: OPTIONS[name].checked(value) for name, value in given.items()}
    options = state_of(model).options
    for name, value in checked.items():
        if value is not None:
            setattr(options, name, value)
    if any(OPTIONS[name].rebuilds for name in given):
        drop_programs(model)


def options_to_config(options: ModelOptions) -> dict[str, Any]:
    """Return what is saved of the options."""
    return {
        option.saved_as: option.to_saved(getattr(options, name))
        for name, option in _SAVED.items()
    }


def options_from_config(options: ModelOptions, config: Mapping[str, Any]) -> None:
    """Take over what was saved of the options."""
    for name, option in _SAVED.items():
        if option.saved_as in config:
            setattr(options, name, option.from_saved(config[option.saved_as]))
