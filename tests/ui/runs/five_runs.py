"""Five runs that differ in several ways, as somebody else left them."""

from __future__ import annotations

import json

from ipu_runtime.plan.plan_json import plan_to_json
from tests.ui.runs.scripted_runs import record_run
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.run_store import StoredRun, open_run

_FOUR = ["pipeline.stages=[0,0,1,1,2,2,3]", "execution.gradient_accumulation=16"]


def record_five() -> list[str]:
    """Record five runs, and return their ids in the order of marking.

    Each began an hour after the one before, and has the plan of its experiment.
    """
    preset = "mnist-ipu-pipelined"
    faster = ["train.learning_rate=0.05"]
    keys = [
        record_run(preset, ["train.learning_rate=0.02"], rate=30.0),
        record_run(preset, faster, rate=24.0),
        record_run(preset, [*faster, "pipeline.schedule=Interleaved"], rate=23.0),
        record_run(preset, [*faster, *_FOUR, "ipu.auto_select_ipus=4"], rate=18.0),
        record_run("mnist-dense", rate=12.0),
    ]
    for hour, key in enumerate(keys, start=9):
        run = open_run(key)
        spec, _ = validate(run.tables)
        assert spec is not None
        plan = plan_to_json(plan_experiment(spec))
        (run.directory / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        begin_at(run, hour)
    return keys


def begin_at(run: StoredRun, hour: int) -> None:
    """Let a record say that its run began at an hour of a certain day."""
    begun = {**run.description, "created": f"2026-03-01T{hour:02}:30:00+00:00"}
    (run.directory / "run.json").write_text(json.dumps(begun), encoding="utf-8")
