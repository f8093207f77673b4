"""The figures that constants of the cost model were fitted to: no evidence for it."""

from __future__ import annotations

from typing import Any

from workbench.experiment.preset_store import load_preset
from workbench.planning.experiment_plan import plan_experiment
from workbench.published.published_figure import (
    PublishedFigure,
    published,
    spec_of,
    with_figures,
)


def fitted_figures() -> list[PublishedFigure]:
    """Return them in microseconds per batch; compilation, in seconds."""
    return [_figure(title, entry) for title, entry in published()["fitted"].items()]


def _figure(title: str, entry: dict[str, Any]) -> PublishedFigure:
    spec = spec_of(title, load_preset(entry["preset"]).tables)
    plan = with_figures(plan_experiment(spec, with_remedies=False), title)
    unit = "us" if "us" in entry else "s"
    modelled = plan.ipu_us_per_batch if unit == "us" else plan.compile_s
    return PublishedFigure(
        entry["preset"], title, unit, entry[unit], modelled, entry["source"]
    )
