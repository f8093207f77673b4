"""What a program's plan was asked, under the names that experiments have for it."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.watch.observer import ProgramCall
from ipu_runtime.plan.placements import placed
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.request import PlanRequest
from workbench.experiment.ipu_tables import nested_ipu


def program_tables(call: ProgramCall) -> dict[str, Any]:
    """Return the settings of a call, so that runs of scripts can be compared."""
    request = call.planned.request
    if request is None:
        return {}
    tables: dict[str, Any] = {
        "data": {"batch_size": request.batch_size},
        "model": {"dtype": request.model.dtype},
        "train": {"optimizer": request.optimizer, "epochs": call.epochs},
        "execution": {
            "steps_per_execution": request.steps_per_execution,
            "gradient_accumulation": request.gradient_accumulation,
            "system": request.system,
        },
        "ipu": {"auto_select_ipus": request.ipus, **nested_ipu(request.config)},
        **_pipeline(request),
    }
    content: dict[str, Any] = plain(tables)
    return content


def _pipeline(request: PlanRequest) -> dict[str, Any]:
    pipeline = request.pipeline
    if pipeline is None:
        return {}
    return {
        "pipeline": {
            "stages": list(pipeline.stage_of_layer),
            "schedule": pipeline.schedule,
            "recomputation": pipeline.recomputation,
            "device_mapping": list(pipeline.device_mapping),
            **placed(pipeline),
        }
    }
