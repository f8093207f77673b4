"""What would help an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ipu_runtime.plan.advice import Advice, advise
from ipu_runtime.plan.plan import Plan
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.shared_layers import shared_spans
from workbench.planning.staged_spec import changed_values, staged_spec

_API = "execution.api"


def advise_experiment(
    spec: ExperimentSpec, plan: Plan, given_up: Callable[[], bool] = lambda: False
) -> tuple[Advice, ...]:
    """Return what would help an experiment, most helpful first.

    Planning every change takes a while: the app does it in a thread.
    """
    found = advise(
        plan,
        locked=spec.pipeline.locked,
        together=shared_spans(spec) if spec.pipeline.stages else (),
        given_up=given_up,
    )
    api = changed_values(spec, staged_spec(spec, ())).get(_API)
    return tuple(
        replace(item, changes={**item.changes, _API: api})
        if api and item.changes.get("pipeline.stages") == []
        else item
        for item in found
    )
