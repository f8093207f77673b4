"""`python -m docs.published`: what was measured on real systems beside the cost model.

Every row of published.toml is a preset with other settings, planned as `plan --band`
plans it. No constant is fitted to a row.
"""

from __future__ import annotations

import math
import tomllib
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from docs.tables import markdown
from ipu_runtime.plan.band import FIGURES, Band, plan_band
from ipu_runtime.plan.hardware import load_table
from ipu_runtime.plan.plan import Plan
from workbench.core.experiment.overrides import apply_overrides
from workbench.core.experiment.preset_store import load_preset
from workbench.core.experiment.validation import validate
from workbench.core.planning.experiment_plan import plan_experiment, plan_inference

PUBLISHED = Path(__file__).parent / "published.toml"
_UPDATES = 100
"""Weight updates of the planned execution; a run has so many that its start is free."""
_HOST_IPUS = 16
"""An IPU-POD16 has one host, and a rack of 64 up to four; who measured does not say."""
_RATIOS = (
    ("IPU-POD64 to IPU-POD256", "resnet-pod256", "resnet-pod64"),
    ("IPU-POD16 to IPU-POD64", "resnet-pod64", "resnet-pod16"),
    ("Bow Pod64 to Bow Pod256", "resnet-bow256", "resnet-bow64"),
    ("Bow Pod64 to Bow Pod256, later", "resnet-bow256-later", "resnet-bow64-later"),
    ("Bow Pod16 over IPU-POD16", "resnet-bow16", "resnet-pod16"),
    ("Bow Pod256 over IPU-POD256", "resnet-bow256", "resnet-pod256"),
    ("BERT, Bow Pod16 to Bow Pod64", "bert-bow64-popart", "bert-bow16-popart"),
    ("BERT, the same, packed", "bert-bow64-packed", "bert-bow16-packed"),
    ("predictions with PopRT, 32 images over 4", "predictions-32", "predictions-4"),
)
"""ResNet-50 unless said otherwise: a row over another."""


@dataclass(frozen=True, slots=True)
class Row:
    """A published throughput, and the plan of the same."""

    title: str
    system: str
    framework: str
    batch: str
    source: str
    published: float
    plan: Plan
    band: Band

    @property
    def modelled(self) -> float:
        """Modelled throughput."""
        return self.plan.samples_per_second

    @property
    def error(self) -> float:
        """By what share the model is off."""
        return self.modelled / self.published - 1


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    """Plan everything that is published."""
    content = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    return {
        name: _row(entry, content["models"][entry["model"]])
        for name, entry in content["rows"].items()
    }


def table() -> str:
    """The rows, what they come to, and where they are from."""
    names = list(tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["sources"])
    shown = [
        [
            row.title,
            row.system,
            row.framework,
            row.batch,
            f"{row.published:,.0f}",
            f"{row.modelled:,.0f}",
            f"{row.error:+.0%}".replace("%", " %"),
            f"{row.band.low:,.0f} to {row.band.high:,.0f}",
            f"{row.plan.memory_fraction * 100:.0f} %",
            str(names.index(row.source) + 1),
        ]
        for row in rows().values()
    ]
    columns = (
        "model",
        "system",
        "framework",
        "batch x accumulation",
        "published, samples/s",
        "modelled",
        "error",
        "band",
        "fullest tile",
        "source",
    )
    return "\n\n".join((markdown(columns, shown), _summary(), _ratios(), _sources()))


def constants() -> str:
    """Every constant, with its confidence and where it comes from."""
    found = load_table()
    values = [
        [
            f"`{name}`",
            f"{item.value:g} {item.unit}".strip(),
            item.confidence,
            item.group or "-",
            item.origin,
        ]
        for name, item in found.constants.items()
    ]
    errors = ", ".join(
        f"{name} {item.share * 100:.0f} % ({item.origin})"
        for name, item in found.errors.items()
    )
    columns = ("constant", "value", "confidence", "error counts as", "where it is from")
    return markdown(columns, values) + f"\n\nErrors by confidence: {errors}."


def _row(entry: dict[str, Any], model: dict[str, Any]) -> Row:
    plan = _plan(entry, model)
    band = plan_band(plan)
    assert band is not None, entry
    return Row(
        model["title"] + ", packed" * ("packed" in entry),
        entry["system"],
        entry["framework"],
        f"{entry['batch']} x {entry['accumulation']}",
        entry["source"],
        entry["published"] / entry.get("packed", 1),
        plan,
        band.of(FIGURES["samples_per_second"]),
    )


def _plan(entry: dict[str, Any], model: dict[str, Any]) -> Plan:
    system = load_table().systems[entry["system"]]
    encoders = model.get("encoders", ())
    ipus = entry.get("ipus", system.ipus)
    hosts = max(ipus // _HOST_IPUS, 1)
    replicas = ipus // model.get("replica_ipus", max(len(encoders), 1))
    update = entry["batch"] * entry["accumulation"] * replicas
    changes = [
        *model["changes"],
        f"execution.system={system.name}",
        f"ipu.auto_select_ipus={ipus}",
        f"execution.instances={hosts}",
        f"execution.hosts={hosts}",
        f"data.batch_size={entry['batch']}",
        f"execution.gradient_accumulation={entry['accumulation']}",
        f"data.train_samples={update * _UPDATES}",
        f"data.test_samples={update * _UPDATES}",
    ]
    tables = deepcopy(load_preset(model["preset"]).tables)
    if encoders:
        tables["model"]["layers"][3]["repeat"] = sum(encoders)
        spec, problems = validate(tables)
        assert spec is not None, problems
        names = [layer.name for layer in spec.model.layers if layer.kind != "Input"]
        changes.append(f"pipeline.stages={_stages(names, encoders)}")
        for layer in tables["model"]["blocks"][0]["layers"]:
            layer |= model.get("encoder", {}).get(layer["name"], {})
    tables, problems = apply_overrides(tables, changes)
    assert not problems, problems
    spec, problems = validate(tables)
    assert spec is not None, problems
    if model.get("predictions"):
        return plan_inference(spec)
    return plan_experiment(spec, with_remedies=False)


def _stages(names: list[str], encoders: list[int]) -> list[int]:
    """Return the stage of every layer, with so many encoders in each."""
    last = [sum(encoders[: stage + 1]) for stage in range(len(encoders))]
    stages, encoder = [], 0
    for name in names:
        if name.startswith("encoder_"):
            encoder = int(name.split("_")[1])
        elif encoder:
            encoder = last[-1] + 1
        stages.append(sum(encoder > end for end in last[:-1]))
    return stages


def _summary() -> str:
    found = list(rows().values())
    mean = math.sqrt(sum(math.log(1 + row.error) ** 2 for row in found) / len(found))
    largest = max(found, key=lambda row: abs(row.error))
    inside = sum(row.band.holds(row.published) for row in found)
    fitting = sum(row.plan.ok for row in found)
    return (
        f"{len(found)} rows: typically {math.expm1(mean) * 100:.0f} % off (root mean "
        f"square), at most {abs(largest.error) * 100:.0f} % ({largest.title} on "
        f"{largest.system}, {largest.framework}). {inside} of them lie in the "
        f"band, and {fitting} fit the modelled memory; on the real systems all did."
    )


def _ratios() -> str:
    found = rows()
    shown = [
        [
            title,
            f"{found[one].published / found[other].published:.2f}",
            f"{found[one].modelled / found[other].modelled:.2f}",
        ]
        for title, one, other in _RATIOS
    ]
    return markdown(("ratio", "published", "modelled"), shown)


def _sources() -> str:
    sources = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))["sources"]
    return "Sources:\n\n" + "\n".join(
        f"{number}. {text}." for number, text in enumerate(sources.values(), 1)
    )


if __name__ == "__main__":
    print(table())
