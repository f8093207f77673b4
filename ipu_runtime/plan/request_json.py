"""What a plan was asked, as plain data, so that it can be planned again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.model.model_json import model_from_json
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

_OF_INSTANCES = ("instances", "hosts")


def request_to_json(request: PlanRequest) -> dict[str, Any]:
    """Return a request with its model in JSON's own types."""
    content: dict[str, Any] = plain(request)
    return content


def request_from_json(content: Any) -> PlanRequest:
    """Return the request that `request_to_json` has written; ValueError if none."""
    try:
        pipeline = content["pipeline"]
        numbers = {
            name: _whole(content[name])
            for name in (
                "batch_size",
                "batches",
                "label_values",
                "steps_per_execution",
                "gradient_accumulation",
                "ipus",
            )
        }
        # Older records have one process, and do not tell what is summed.
        numbers |= {name: _whole(content.get(name, 1)) for name in _OF_INSTANCES}
        return PlanRequest(
            model=model_from_json(content["model"]),
            sums_micro_batches=bool(content.get("sums_micro_batches")),
            sums_replicas=bool(content.get("sums_replicas")),
            learning_rate=float(content.get("learning_rate", 0.0)),
            optimizer=str(content["optimizer"]),
            training=bool(content["training"]),
            # Older records say neither who runs it nor whether it is a steady state.
            api=str(content.get("api", "ipu_strategy")),
            steady=bool(content.get("steady")),
            system=str(content["system"]),
            pipeline=None if pipeline is None else _pipeline(pipeline),
            config=dict(content["config"]),
            hardware_file=str(content["hardware_file"]),
            **numbers,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a stored request: {error!r}") from error


def _pipeline(content: Mapping[str, Any]) -> PipelineRequest:
    return PipelineRequest(
        tuple(_whole(stage) for stage in content["stage_of_layer"]),
        ScheduleKind(content["schedule"]),
        Recomputation(content["recomputation"]),
        tuple(_whole(ipu) for ipu in content["device_mapping"]),
        # Older records have the first only.
        **{name: bool(content.get(name)) for name in PLACEMENTS.values()},
    )


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value
