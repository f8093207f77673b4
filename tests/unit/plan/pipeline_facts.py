"""Established facts about pipelines, read from the golden file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

FACTS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data" / "pipeline_golden.json").read_text()
)

KINDS = {
    "grouped": ScheduleKind.GROUPED,
    "interleaved": ScheduleKind.INTERLEAVED,
    "sequential": ScheduleKind.SEQUENTIAL,
    "gpipe": ScheduleKind.GPIPE,
    "1f1b": ScheduleKind.ONE_F_ONE_B,
    "interleaved_1f1b": ScheduleKind.INTERLEAVED_ONE_F_ONE_B,
    "zb_h1": ScheduleKind.ZERO_BUBBLE_H1,
}
RECOMPUTATION = {
    "none": Recomputation.OFF,
    "then_backpropagate": Recomputation.THEN_BACKPROPAGATE,
    "with_backpropagate": Recomputation.WITH_BACKPROPAGATE,
}


def label(entry: dict[str, Any]) -> str:
    """Return a short name of an entry."""
    keys = ("id", "name", "schedule", "mode", "device_mapping", "stages", "devices")
    keys += ("gac", "microbatches", "recompute", "copy")
    return "-".join(str(entry[key]) for key in keys if key in entry)
