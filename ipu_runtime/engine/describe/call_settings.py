"""The settings of calls that may be changed from outside of a script: one table.

A row says what a setting is as a plain value, which is a number, a text, a truth value
or a list of numbers, and what the API's calls take for it. A kind of call, such as
Keras' `fit` or a pipeline of functions, only says which of them it has and where it
stores them. The fields of a configuration are settings too and have a table of their
own, `plan/config/config_fields.py`, which is plain already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ipu_runtime.engine.describe.model_options import (
    GradientAccumulationReductionMethod,
    PipelineSchedule,
    RecomputationMode,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.watch.interception import changed_settings, notice
from ipu_runtime.plan.placements import PLACEMENTS, placements


def _as_given(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: a setting and its two forms."""

    plain: Callable[[Any], Any] = _as_given
    """From what a script gives, which is None where it leaves the setting out."""
    given: Callable[[Any], Any] = _as_given
    """From a plain value to what the API takes."""


def _or_else(default: int) -> Callable[[Any], Any]:
    return lambda value: value or default


def _name_of(default: Enum) -> Callable[[Any], str]:
    return lambda member: (member or default).name


SETTINGS: Mapping[str, Setting] = {
    "stages": Setting(),
    "schedule": Setting(
        _name_of(PipelineSchedule.Grouped), lambda name: PipelineSchedule[name]
    ),
    "recomputation": Setting(
        _name_of(RecomputationMode.Auto), lambda name: RecomputationMode[name]
    ),
    "device_mapping": Setting(
        lambda ipus: list(ipus or ()), lambda ipus: tuple(ipus) or None
    ),
    **dict.fromkeys(PLACEMENTS, Setting()),
    "metric_reduction": Setting(
        lambda method: method.name.lower(), ReplicatedMetricReductionMethod.parse
    ),
    "gradient_accumulation": Setting(),
    "accumulation_reduction": Setting(
        lambda method: method.name.lower(), GradientAccumulationReductionMethod.parse
    ),
    "epochs": Setting(_or_else(1)),
    "steps_per_epoch": Setting(_or_else(0), lambda steps: steps or None),
    "batch_size": Setting(_or_else(32)),
    "steps_per_execution": Setting(),
    # Told and not changed: what a script feeds and fetches goes by it.
    "iterations": Setting(),
}


PIPELINE_ARGUMENTS = {
    "schedule": "pipeline_schedule",
    "recomputation": "recomputation_mode",
    **{name: name for name in PLACEMENTS},
}
"""Where everything that builds a pipeline has these settings: among its arguments."""
_FUNCTIONS_ARGUMENTS = {
    **PIPELINE_ARGUMENTS,
    "device_mapping": "device_mapping",
    "gradient_accumulation": "gradient_accumulation_count",
}


def pipeline_settings(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what arguments of a pipeline say, by the names of the settings."""
    given = {**arguments, **placements(arguments)}
    return {name: given.get(key) for name, key in PIPELINE_ARGUMENTS.items()}


def intercepted(call: str, training: bool, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a call that somebody outside wants otherwise.

    Args:
        call: as an interceptor knows it.
        training: whether it trains.
        values: what it takes now, by the names of the settings, as the API has it;
            the result is of the same form.
    """
    plain = {name: SETTINGS[name].plain(value) for name, value in values.items()}
    changes = changed_settings(call, training, plain)
    return {name: SETTINGS[name].given(value) for name, value in changes.items()}


def intercepted_pipeline(
    call: str, training: bool, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a pipeline of functions that somebody wants otherwise."""
    notice(call)
    values = {
        **pipeline_settings(arguments),
        "device_mapping": arguments.get("device_mapping"),
    }
    if training:
        values["gradient_accumulation"] = arguments["gradient_accumulation_count"]
    changes = intercepted(call, training, values)
    return {_FUNCTIONS_ARGUMENTS[name]: value for name, value in changes.items()}
