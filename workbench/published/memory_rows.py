"""Memory that others have read from profiles, or that was enough on a real system."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ipu_runtime.plan.band import Band, plan_band
from ipu_runtime.plan.model.model_json import model_from_json
from ipu_runtime.plan.plan import IpuMemory, Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest
from workbench.experiment.preset_store import load_preset
from workbench.locations import hardware_file
from workbench.planning.experiment_plan import plan_experiment, plan_inference
from workbench.published.published_figure import (
    DIRECTORY,
    PublishedFigure,
    published,
    spec_of,
    with_figures,
)

PARTS = {
    "peak": "sum over tiles at the peak",
    "always_live": "of it always live",
    "rest": "of it the rest",
    "code": "code and its state",
    "tile": "fullest tile",
    "room": "fullest tile, which had room",
}


@dataclass(frozen=True, slots=True)
class MemoryRow(PublishedFigure):
    """Bytes of one kind that somebody has published, and those of the plan."""

    part: str
    band: Band

    @property
    def is_limit(self) -> bool:
        """Whether it is what must not be exceeded, so that there is no error."""
        return self.part == "room"

    @property
    def held(self) -> bool:
        """Whether what was published lies in the band, or is not exceeded."""
        if self.is_limit:
            return self.modelled <= self.published
        return self.band.holds(self.published)


@lru_cache(maxsize=1)
def memory_rows() -> dict[str, MemoryRow]:
    """Plan everything whose memory is published, by name and part."""
    rows = [
        _row(name, entry, plan, part)
        for name, entry in published()["memory"].items()
        for plan in [with_figures(_plan(name, entry), name)]
        for part in entry["published"]
    ]
    return {row.name: row for row in rows}


def _row(name: str, entry: dict[str, Any], plan: Plan, part: str) -> MemoryRow:
    band = plan_band(plan)
    assert band is not None, name
    return MemoryRow(
        f"{name}-{part}",
        entry["title"],
        "bytes",
        entry["published"][part],
        _bytes(plan.memory[0], part),
        entry["source"],
        part,
        band.of(lambda plan: _bytes(plan.memory[0], part)),
    )


def _bytes(memory: IpuMemory, part: str) -> int:
    return {
        "peak": memory.used_bytes,
        "always_live": memory.always_live_bytes,
        "rest": memory.used_bytes - memory.always_live_bytes,
        "code": memory.by_category["code"],
        "tile": memory.fullest_tile_bytes,
        "room": memory.fullest_tile_bytes,
    }[part]


def _plan(name: str, entry: dict[str, Any]) -> Plan:
    if "model" in entry:
        return make_plan(_request(entry))
    path = entry.get("preset") or str(DIRECTORY / entry["experiment"])
    spec = spec_of(name, load_preset(path).tables, entry.get("changes", ()))
    if entry.get("predictions"):
        return plan_inference(spec)
    return plan_experiment(spec, with_remedies=False)


def _request(entry: dict[str, Any]) -> PlanRequest:
    """Return predictions of a model that was read from Keras."""
    stored = (DIRECTORY / entry["model"]).read_text(encoding="utf-8")
    return PlanRequest(
        model_from_json(json.loads(stored)),
        entry["batch"],
        batches=400,
        label_values=0,
        steps_per_execution=400,
        training=False,
        config={"convolutions.poplar_options": {"partialsType": "half"}},
        hardware_file=hardware_file(),
    )
