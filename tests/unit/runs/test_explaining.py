"""From one run to another, one changed field at a time."""

from __future__ import annotations

import pytest

from tests.ui.runs.scripted_runs import record_run
from tests.ui.runs.test_script_runs import record_script
from workbench.comparing.compare import compare_runs
from workbench.comparing.explaining import explain, explanation_to_json
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.run_store import open_run

FOUR_STAGES = [
    "pipeline.stages=[0,0,1,1,2,2,3]",
    "execution.gradient_accumulation=16",
    "ipu.auto_select_ipus=4",
]


def _us_per_batch(preset: str, *changes: str) -> float:
    tables, _ = apply_overrides(load_preset(preset).tables, changes)
    spec, problems = validate(tables)
    assert spec is not None, problems
    return plan_experiment(spec).ipu_us_per_batch


def test_every_step_is_the_plan_with_one_more_field_changed() -> None:
    preset, (stages, accumulation, ipus) = "mnist-ipu-pipelined", FOUR_STAGES
    first = open_run(record_run(preset))
    second = open_run(record_run(preset, ["train.learning_rate=0.3", *FOUR_STAGES]))

    explanation = explain(first, second)

    assert [[change.path for change in step.changes] for step in explanation.steps] == [
        [],
        ["execution.gradient_accumulation"],
        ["ipu.auto_select_ipus"],
        ["pipeline.stages"],
    ]
    assert [step.us for step in explanation.steps] == pytest.approx(
        [
            _us_per_batch(preset),
            _us_per_batch(preset, accumulation),
            _us_per_batch(preset, accumulation, ipus),
            _us_per_batch(preset, accumulation, ipus, stages),
        ]
    )
    whole = explanation.steps[-1].us - explanation.steps[0].us
    assert sum(step.delta_us for step in explanation.steps) == pytest.approx(whole)
    assert [item.path for item in explanation.without_effect] == ["train.learning_rate"]


def test_changes_that_cannot_be_alone_are_taken_together() -> None:
    first = open_run(record_run("mnist-ipu-pipelined", FOUR_STAGES))
    second = open_run(
        record_run("mnist-ipu-pipelined", ["execution.gradient_accumulation=4"])
    )

    groups = [
        {change.path for change in step.changes}
        for step in explain(first, second).steps
    ]

    # Four stages need multiples of eight, and two IPUs hold two stages.
    assert {"execution.gradient_accumulation"} not in groups[:2]
    assert set().union(*groups) == {
        "execution.gradient_accumulation",
        "ipu.auto_select_ipus",
        "pipeline.stages",
    }


def test_batches_of_other_sizes_are_told_per_sample() -> None:
    first = open_run(record_run("mnist-ipu"))
    second = open_run(record_run("mnist-ipu", ["data.batch_size=32"]))

    explanation = explain(first, second)

    assert explanation.unit == "sample"
    before, after = explanation.steps
    assert before.us == pytest.approx(_us_per_batch("mnist-ipu") / 64)
    assert after.us == pytest.approx(
        _us_per_batch("mnist-ipu", "data.batch_size=32") / 32
    )


def test_another_model_is_one_step() -> None:
    first = open_run(record_run("mnist-ipu"))
    second = open_run(record_run("mnist-dense"))

    steps = explain(first, second).steps

    (model,) = [c for step in steps for c in step.changes if c.path == "model"]
    assert model.values == (
        "7 layers, Conv2D…, 34,826 params",
        "3 layers, Dense…, 101,770 params",
    )


def test_scripts_are_explained_from_what_their_plans_were_asked() -> None:
    script = open_run(record_script("one.py", 8.0))
    preset = open_run(record_run("mnist-ipu", ["data.batch_size=128"]))

    explanation = explain(script, preset)

    # The script's plan is that of mnist-ipu.
    assert explanation.steps[0].us == pytest.approx(_us_per_batch("mnist-ipu") / 64)
    assert explanation.steps[-1].us == pytest.approx(
        _us_per_batch("mnist-ipu", "data.batch_size=128") / 128
    )
    assert "data.batch_size" in {
        change.path for step in explanation.steps for change in step.changes
    }


def test_a_run_without_a_plan_says_so() -> None:
    script = open_run(record_script("one.py", 8.0))
    (script.directory / "plan.json").unlink()

    explanation = explain(script, open_run(record_run("mnist-ipu")))

    assert explanation.problem == f"{script.run_id} has no plan to begin with"
    assert explanation_to_json(script, script, explanation)["steps"] == []


def test_what_trains_otherwise_is_told_beside_the_times() -> None:
    first = open_run(record_run("mnist-ipu-pipelined"))
    second = open_run(record_run("mnist-ipu-pipelined", FOUR_STAGES))
    explanation = explain(first, second)
    assert explanation.training == (
        "1,024 samples per update instead of 512: 2 times fewer updates an epoch",
        "effective learning rate 0.08 to 0.16 (sum of 16 gradients)",
    )
    row = explanation_to_json(first, second, explanation)
    assert row["training_changes"] == list(explanation.training)
    rows = {row.name: row for row in compare_runs([first, second]).metrics}
    assert rows["samples per update"].values == (512, 1024)
    assert rows["effective learning rate"].values == pytest.approx((0.08, 0.16))
    assert rows["effective learning rate"].best_index is None
    alike = {row.name for row in compare_runs([first, first]).metrics}
    assert "effective learning rate" not in alike
