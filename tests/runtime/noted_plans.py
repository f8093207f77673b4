"""Runs of experiments whose plans are all noted."""

from __future__ import annotations

from typing import Any

import pytest

from ipu_runtime.engine.describe import program_plan
from ipu_runtime.plan import planner
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.weight_updates import summed_gradients
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import Event, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment


class Plans:
    """Every plan that is made, and by whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[Plan] = []
        self.by_engine: list[Plan] = []
        self.control = RunControl()
        self.stop_when_planned = False
        make_plan = planner.make_plan

        def noted(request: PlanRequest, **options: Any) -> Plan:
            plan = make_plan(request, **options)
            self.all.append(plan)
            return plan

        def noted_of_engine(request: PlanRequest) -> Plan:
            plan = noted(request)
            self.by_engine.append(plan)
            if self.stop_when_planned:
                self.control.stop.set()
            return plan

        monkeypatch.setattr(planner, "make_plan", noted)
        monkeypatch.setattr(program_plan, "make_plan", noted_of_engine)

    def run(self, spec: ExperimentSpec) -> list[Event]:
        """Run an experiment, or only up to its engine's first plan."""
        events: list[Event] = []
        status = run_experiment(spec, self.control, events.append)
        wanted = RunStatus.STOPPED if self.stop_when_planned else RunStatus.FINISHED
        assert status is wanted, events[-1]
        return events


def figures(plan: Plan) -> dict[str, Any]:
    """Return everything modelled, whatever order the layers are listed in."""
    modelled = plan_to_json(plan)
    asked = modelled.pop("request")
    # The engine does not know the rate, which a callback may change, but by how much
    # sums make it larger.
    del asked["learning_rate"]
    of_rate = "train.learning_rate"
    modelled["problems"] = [p for p in modelled["problems"] if p["where"] != of_rate]
    modelled["summed"] = summed_gradients(plan.request)
    # Where IPUs are selected does not matter once their number is known.
    asked["config"].pop("auto_select_ipus", None)
    if asked["pipeline"]:
        del asked["pipeline"]["stage_of_layer"]
    for stage in modelled["stages"]:
        stage["layers"] = sorted(stage["layers"])
    modelled["layers"] = {
        layer["name"]: (layer["stage"], layer["forward_us"], layer["backward_us"])
        for layer in modelled["layers"]
    }
    return modelled | asked
