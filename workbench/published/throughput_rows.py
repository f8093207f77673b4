"""Published throughputs, each a preset with other settings, and their ratios."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ipu_runtime.plan.band import FIGURES, Band, PlanBand, plan_band
from ipu_runtime.plan.hardware import load_table
from ipu_runtime.plan.plan import Plan
from workbench.experiment.preset_store import load_preset
from workbench.locations import hardware_file
from workbench.planning.experiment_plan import plan_experiment, plan_inference
from workbench.published.published_figure import (
    PublishedFigure,
    published,
    spec_of,
    with_figures,
)

THROUGHPUT = FIGURES["samples_per_second"]
_UPDATES = 100
"""Weight updates of the planned execution; a run has so many that its start is free."""
_HOST_IPUS = 16
"""An IPU-POD16 has one host, and a rack of 64 up to four; who measured does not say."""


@dataclass(frozen=True, slots=True)
class ThroughputRow(PublishedFigure):
    """A published throughput, and the plan of the same."""

    system: str
    framework: str
    batch: str
    plan_band: PlanBand

    @property
    def plan(self) -> Plan:
        """The plan of the same."""
        return self.plan_band.plan

    @property
    def band(self) -> Band:
        """Between what `plan --band` says that the throughput lies."""
        return self.plan_band.of(THROUGHPUT)


@lru_cache(maxsize=1)
def throughput_rows() -> dict[str, ThroughputRow]:
    """Plan everything whose throughput is published, by name."""
    models = published()["models"]
    return {
        name: _row(name, entry, models[entry["model"]])
        for name, entry in published()["throughput"].items()
    }


def ratios() -> list[PublishedFigure]:
    """Return how rows compare with others."""
    rows = throughput_rows()
    return [
        PublishedFigure(
            f"{one} over {other}",
            title,
            "",
            rows[one].published / rows[other].published,
            rows[one].modelled / rows[other].modelled,
            "",
        )
        for title, (one, other) in published()["ratios"].items()
    ]


def _row(name: str, entry: dict[str, Any], model: dict[str, Any]) -> ThroughputRow:
    plan = with_figures(_plan(name, entry, model), name)
    band = plan_band(plan)
    assert band is not None, name
    return ThroughputRow(
        name,
        model["title"] + ", packed" * ("packed" in entry),
        "samples/s",
        entry["published"] / entry.get("packed", 1),
        THROUGHPUT(plan),
        entry["source"],
        entry["system"],
        entry["framework"],
        f"{entry['batch']} x {entry['accumulation']}",
        band,
    )


def _plan(name: str, entry: dict[str, Any], model: dict[str, Any]) -> Plan:
    system = load_table(hardware_file()).systems[entry["system"]]
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
        layers = spec_of(name, tables).model.layers
        names = [layer.name for layer in layers if layer.kind != "Input"]
        changes.append(f"pipeline.stages={_stages(names, encoders)}")
        for layer in tables["model"]["blocks"][0]["layers"]:
            layer |= model.get("encoder", {}).get(layer["name"], {})
    spec = spec_of(name, tables, changes)
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
