"""What stands where a device's figures would: on a CPU nothing is modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.experiment.field_differences import differences
from workbench.experiment.printed_figures import printed_figures
from workbench.runs.run_store import list_runs

_NO_MATTER = ("train.epochs",)
"""Changes no time per batch; what describes an experiment does not either."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took on this machine."""

    ms_per_batch: float
    samples_per_second: float
    where: str
    """Which run it was."""


def newest_measured(tables: Mapping[str, Any], preset: str) -> Measured | None:
    """Return what the newest run of the same experiment took, if there was one."""
    for run in list_runs():
        ms = run.summary.get("host_ms_per_batch")
        if run.preset != preset or not isinstance(ms, float) or not ms:
            continue
        if same_times(run.tables, tables):
            rate = float(run.summary.get("host_samples_per_second") or 0.0)
            return Measured(ms, rate, f"run {run.run_id}")
    return None


def same_times(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two experiments differ in nothing that takes time."""
    changed = (item.path for item in differences(one, other))
    return all(path.startswith("experiment.") or path in _NO_MATTER for path in changed)


def cpu_json(tables: Mapping[str, Any], preset: str) -> dict[str, Any]:
    """Return the times that are known as plain data; null is what is not."""
    printed = printed_figures(tables, preset).comparable
    measured = newest_measured(tables, preset)
    return {
        "document_us_per_batch": next((row.step_us for row in printed), None),
        "host_ms_per_batch": measured.ms_per_batch if measured else None,
        "host_samples_per_second": measured.samples_per_second if measured else None,
    }
