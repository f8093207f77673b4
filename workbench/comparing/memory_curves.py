"""Memory over the programs of runs, to lay one over another."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.reports.plan_words import fullest_walk
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import recorded_plan
from workbench.runs.series import Curve

_MIB = 2.0**20


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Modelled MiB of a run's fullest IPU over its program, summed over tiles."""

    curve: Curve = Curve()  # noqa: RUF009
    always_live: float = 0.0


def memory_curve(run: StoredRun) -> MemoryCurve:
    """Plan a run once more and walk through it; empty without a modelled device."""
    plan = _plan(run)
    walks = walk_memory(plan) if plan else ()
    if not walks:
        return MemoryCurve()
    walk = fullest_walk(walks)
    xs = tuple(float(at + 1) for at in range(len(walk.steps)))
    ys = tuple(total / _MIB for total in walk.totals)
    curve = Curve(xs, ys, "program step")
    return MemoryCurve(curve, walk.memory.always_live_bytes / _MIB)


def _plan(run: StoredRun) -> Plan | None:
    if run.script:
        return recorded_plan(run)
    spec, _ = validate(run.tables)
    if spec is None or spec.execution.api == "cpu":
        return None
    return plan_experiment(spec, with_remedies=False)
