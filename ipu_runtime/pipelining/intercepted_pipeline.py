"""Settings of a pipeline of functions that somebody outside wants otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipu_runtime.engine.describe.model_options import (
    PipelineSchedule,
    RecomputationMode,
)
from ipu_runtime.engine.watch.interception import changed_settings, notice


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What a script asks of a pipeline whose stages are functions."""

    count: Any
    schedule: PipelineSchedule | None
    recomputation_mode: RecomputationMode | None
    device_mapping: Sequence[Any] | None
    placements: Mapping[str, bool]
    """Where things live, by the names of the arguments."""


def intercepted_pipeline(
    call: str, training: bool, settings: PipelineSettings
) -> PipelineSettings:
    """Return the settings as somebody outside of the script wants them."""
    notice(call)
    schedule = settings.schedule or PipelineSchedule.Grouped
    mode = settings.recomputation_mode or RecomputationMode.Auto
    now = {
        "schedule": schedule.name,
        "recomputation": mode.name,
        "device_mapping": list(settings.device_mapping or ()),
        **settings.placements,
    }
    if training:
        now["gradient_accumulation"] = settings.count
    changes = changed_settings(call, training, now)
    count = changes.get("gradient_accumulation", settings.count)
    changed = replace(settings, count=count)
    if "schedule" in changes:
        changed = replace(changed, schedule=PipelineSchedule[changes["schedule"]])
    if "recomputation" in changes:
        mode = RecomputationMode[changes["recomputation"]]
        changed = replace(changed, recomputation_mode=mode)
    if "device_mapping" in changes:
        changed = replace(changed, device_mapping=changes["device_mapping"] or None)
    placements = {name: changes.get(name, now[name]) for name in settings.placements}
    return replace(changed, placements=placements)
