"""Plans and other values as plain data."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.plan.problem import Problem, Severity
from workbench.experiment.experiment_loading import load_experiment
from workbench.planning.experiment_plan import plan_experiment


def _plan(preset: str, *changes: str) -> Plan:
    spec = load_experiment(preset, changes).spec
    assert spec is not None
    return plan_experiment(spec)


def test_a_plan_has_its_question_and_every_figure() -> None:
    plan = _plan("mnist-ipu-pipelined")
    content = json.loads(json.dumps(plan_to_json(plan), allow_nan=False))
    assert content["request"]["pipeline"]["schedule"] == "Grouped"
    assert content["request"]["batch_size"] == 64
    assert content["ipu_step_us"] == plan.ipu_step_us
    assert content["compile_s"] == plan.compile_s
    assert content["step_parts_us"]["compute_us"] == plan.step.compute_us  # type: ignore[union-attr]
    assert [layer["name"] for layer in content["layers"]] == [
        layer.name for layer in plan.layers
    ]
    first = content["stages"][0]
    assert first["layers"] == ["conv2d", "max_pooling2d", "conv2d_1"]
    assert first["memory_bytes"] == plan.memory[0].used_bytes
    assert content["memory"][1]["by_category"] == dict(plan.memory[1].by_category)
    assert content["schedule"]["slots"] == len(plan.schedule.slots)  # type: ignore[union-attr]


def test_a_plan_without_figures_still_says_why() -> None:
    content = plan_to_json(_plan("mnist-ipu", "ipu.auto_select_ipus=64"))
    assert content["problems"][0]["where"] == "ipu.auto_select_ipus"
    assert content["problems"][0]["severity"] == "error"


def test_plain_data_is_what_json_can_hold() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        first: object
        second: object = None

    assert plain(Pair(Pair((1, 2.5)), Severity.NO_FIT)) == {
        "first": {"first": [1, 2.5], "second": None},
        "second": "does not fit",
    }
    assert plain({1: math.inf, "b": [math.nan, True, None]}) == {
        "1": None,
        "b": [None, True, None],
    }
    assert plain([np.float32(0.5), np.int64(3), np.bool_(True), np.float64("nan")]) == [
        0.5,
        3,
        True,
        None,
    ]
    assert plain(Problem) == str(Problem)
