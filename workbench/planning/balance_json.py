"""A balanced experiment as the object that `balance --json` prints."""

from __future__ import annotations

from typing import Any

from ipu_runtime.plan.balance.balance_types import Candidate
from workbench.planning.balancing import BalancedExperiment


def balance_row(balanced: BalancedExperiment, name: str = "") -> dict[str, Any]:
    """Return what balancing found; all figures are modelled."""
    result = balanced.result
    request = result.request
    names = [
        layer.name for layer in balanced.spec.model.layers if layer.kind != "Input"
    ]
    move = result.best_move
    return {
        "event": "balance",
        "preset": name,
        "modelled": True,
        "stages": request.stages,
        "objective": request.objective.value,
        "schedule": request.schedule.value,
        "micro_batches": request.micro_batches,
        "feasible": result.feasible,
        "exact": result.exact,
        "stage_of_layer": list(result.stage_of_layer),
        "layers": names,
        "step_time_us": result.step_time_us,
        "best": _candidate(result.best),
        "runner_up": _candidate(result.runner_up),
        "now": _candidate(result.now),
        "uniform": _candidate(result.uniform),
        "time_slack_us": list(result.time_slack_us),
        "memory_slack_bytes": list(result.memory_slack_bytes),
        "binding": result.binding,
        "best_move": move
        and {
            "layer": names[move.layer],
            "from_stage": move.from_stage,
            "to_stage": move.to_stage,
            "gain": move.gain,
        },
        "excess_bytes": result.excess_bytes,
        "fixes": [
            {
                "change": fix.change,
                "fits": fix.fits,
                "excess_bytes": fix.excess_bytes,
                "step_time_us": fix.step_time_us,
            }
            for fix in result.fixes
        ],
        "problem": result.problem,
        "changes": list(balanced.changes),
        "training_changes": list(balanced.training),
        "ipu_us_per_batch": balanced.plan.ipu_us_per_batch if result.feasible else None,
    }


def _candidate(candidate: Candidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    return {
        "stage_of_layer": list(candidate.stage_of_layer),
        "step_time_us": candidate.step_time_us,
        "bottleneck_us": candidate.bottleneck_us,
        "peak_bytes": candidate.peak_bytes,
        "crossing_bytes": candidate.crossing_bytes,
        "stage_us": list(candidate.stage_us),
        "stage_bytes": list(candidate.stage_bytes),
    }
