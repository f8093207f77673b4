"""`python -m docs.published_memory`: memory of real systems beside the cost model.

Every row of published.toml is an experiment or a model, planned as `plan` plans it. No
constant is fitted to a row.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from docs.published import PUBLISHED
from docs.tables import markdown
from ipu_runtime.plan.model.model_json import model_from_json
from ipu_runtime.plan.plan import IpuMemory, Plan, PlanRequest
from ipu_runtime.plan.planner import make_plan
from workbench.core.experiment.overrides import apply_overrides
from workbench.core.experiment.preset_store import load_preset
from workbench.core.experiment.validation import validate
from workbench.core.planning.experiment_plan import plan_experiment, plan_inference

_PARTS = {
    "peak": "sum over tiles at the peak",
    "always_live": "of it always live",
    "rest": "of it the rest",
    "code": "code and its state",
    "tile": "fullest tile",
    "room": "fullest tile, which had room",
}


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Bytes of one kind that somebody has published, and those of the plan."""

    title: str
    part: str
    source: str
    published: int
    modelled: int

    @property
    def error(self) -> float:
        """By what share the model is off."""
        return self.modelled / self.published - 1


@lru_cache(maxsize=1)
def memory_rows() -> dict[str, MemoryRow]:
    """Plan everything whose memory is published, by name and part."""
    content = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    found = {}
    for name, entry in content["memory"].items():
        (memory,) = _plan(entry).memory
        for part, published in entry["published"].items():
            found[f"{name}-{part}"] = MemoryRow(
                entry["title"], part, entry["source"], published, _bytes(memory, part)
            )
    return found


def table() -> str:
    """The rows, as a table."""
    names = list(tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["sources"])
    shown = [
        [
            row.title,
            _PARTS[row.part],
            f"{row.published:,}",
            f"{row.modelled:,}",
            f"{row.error:+.0%}".replace("%", " %") if row.part != "room" else "",
            str(names.index(row.source) + 1),
        ]
        for row in memory_rows().values()
    ]
    head = ("model", "what", "published, bytes", "modelled", "error", "source")
    return markdown(head, shown)


def _bytes(memory: IpuMemory, part: str) -> int:
    return {
        "peak": memory.used_bytes,
        "always_live": memory.always_live_bytes,
        "rest": memory.used_bytes - memory.always_live_bytes,
        "code": memory.by_category["code"],
        "tile": memory.fullest_tile_bytes,
        "room": memory.fullest_tile_bytes,
    }[part]


def _plan(entry: dict[str, Any]) -> Plan:
    if "model" in entry:
        return make_plan(_request(entry))
    path = entry.get("preset") or str(PUBLISHED.with_name(entry["experiment"]))
    tables, problems = apply_overrides(
        load_preset(path).tables, entry.get("changes", ())
    )
    assert not problems, problems
    spec, problems = validate(tables)
    assert spec is not None, problems
    if entry.get("predictions"):
        return plan_inference(spec)
    return plan_experiment(spec, with_remedies=False)


def _request(entry: dict[str, Any]) -> PlanRequest:
    """Return predictions of a model that was read from Keras."""
    stored = PUBLISHED.with_name(entry["model"]).read_text(encoding="utf-8")
    return PlanRequest(
        model_from_json(json.loads(stored)),
        entry["batch"],
        batches=400,
        label_values=0,
        steps_per_execution=400,
        training=False,
        config={"convolutions.poplar_options": {"partialsType": "half"}},
    )


if __name__ == "__main__":
    print(table())
