"""How many samples an epoch takes: whole executions, and made-up ones without end."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import numpy as np
import pytest

from ipu_runtime.plan.problem import Severity
from ipu_runtime.reports.plan_document import plan_document
from workbench.data.dataset import load_prepared
from workbench.data.dataset_facts import DatasetError
from workbench.data.sample_counts import (
    count,
    sample_words,
    training_steps_per_execution,
)
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.experiment_plan import plan_experiment
from workbench.script_export import export_script
from workbench.views.layout import TextStyle, document_text

TEN = "execution.steps_per_execution=10"
MADE_UP = ("data.dataset=synthetic", "execution.steps_per_execution=epoch")


def _spec(preset: str, *changes: str) -> ExperimentSpec:
    loaded = load_experiment(preset, changes)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


@pytest.mark.parametrize(
    ("changes", "batches", "dropped"),
    [
        ((TEN,), 930, 480),
        (("execution.steps_per_execution=937",), 937, 32),
        # An epoch that has not one whole execution is cut as it always was.
        (("execution.steps_per_execution=2000",), 937, 32),
        ((TEN, "ipu.auto_select_ipus=2"), 920, 1120),
        ((TEN, "execution.gradient_accumulation=5"), 930, 480),
        (("execution.gradient_accumulation=5",), 935, 160),
        ((TEN, "data.train_samples=700"), 10, 60),
    ],
)
def test_data_are_trimmed_to_whole_executions(
    changes: tuple[str, ...], batches: int, dropped: int
) -> None:
    counted = count(_spec("mnist-ipu", *changes)).train

    assert (counted.batches, counted.dropped) == (batches, dropped)
    assert counted.available == counted.samples + dropped


def test_executions_that_do_not_divide_the_batches_are_no_problem_any_more() -> None:
    spec = _spec("mnist-ipu", TEN)
    plan = plan_experiment(spec)

    assert plan.problems == ()
    assert (plan.steps_per_epoch, plan.executions_per_epoch) == (930, 93)
    assert sample_words(spec) == "930 batches an epoch, drops 480 of 60,000 samples"
    text = "\n".join(
        document_text(plan_document(plan, "", sample_words(spec)), TextStyle(100))
    )
    assert "930 steps, 93 executions of 10" in text
    assert "drops 480 of 60,000 samples" in text


def test_a_run_takes_the_samples_that_the_plan_counts() -> None:
    data = load_prepared(_spec("mnist-ipu", TEN, "data.train_samples=700"))

    assert len(data.train.x) == 640
    assert "60 training samples dropped" in data.report()


def test_padding_fills_the_last_execution() -> None:
    counted = count(_spec("mnist-padded", TEN)).train

    assert (counted.batches, counted.added) == (940, 160)


def test_steps_that_the_user_counts_stay_what_they_are() -> None:
    spec = _spec("mnist-ipu", TEN, "train.steps_per_epoch=37")

    assert count(spec).train.batches == 37
    (problem,) = plan_experiment(spec).problems
    assert "(10) must be a divisor of the number of batches (37)" in str(problem)


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("mnist-ipu", (TEN,)),
        ("mnist-ipu", (TEN, "ipu.auto_select_ipus=4")),
        ("mnist-ipu", (TEN, "execution.gradient_accumulation=5")),
        ("mnist-ipu", ("execution.steps_per_execution=2000",)),
        ("mnist-cpu", (TEN, "data.preparation=trim")),
        ("mnist-padded", (TEN,)),
        ("cifar10-ipu-estimator", (TEN,)),
        ("cifar10-ipu-pipeline-estimator", ("execution.steps_per_execution=16",)),
    ],
)
def test_an_exported_script_prepares_as_many_samples(
    preset: str, changes: tuple[str, ...]
) -> None:
    spec = _spec(preset, *changes)
    counts = count(spec)
    tree = ast.parse(export_script(spec))
    kept = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name != "load_data")
        or (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id.isupper()
        )
    ]
    x_train, x_test = (np.zeros((n, 1)) for n in (counts.train.available, 640))
    script: dict[str, object] = {
        "np": np,
        "load_data": lambda: ((x_train, x_train), (x_test, x_test)),
    }
    exec(compile(ast.Module(kept, []), "script", "exec"), script)
    arguments = SimpleNamespace(
        batch_size=spec.data.batch_size,
        gradient_accumulation_count=spec.execution.gradient_accumulation,
        use_ipu=spec.execution.api != "cpu",
        pipelining=bool(spec.pipeline.stages),
    )

    train, _ = script["prepare_data"](arguments)  # type: ignore[operator]

    assert len(train[0]) == counts.train.samples


@pytest.mark.parametrize("samples", [1, 100, 2048, 1_000_000])
def test_figures_do_not_depend_on_how_many_samples_are_made_up(samples: int) -> None:
    own = plan_experiment(_spec("mnist-ipu", *MADE_UP, f"data.train_samples={samples}"))
    usual = plan_experiment(_spec("mnist-ipu", *MADE_UP))

    assert own.problems == ()
    assert own.ipu_step_us == usual.ipu_step_us
    assert own.samples_per_second == usual.samples_per_second
    assert own.steps_per_epoch == -(-samples // 64)


def test_a_steady_state_has_the_starts_of_long_executions() -> None:
    plan = plan_experiment(_spec("mnist-ipu", *MADE_UP, "data.train_samples=640"))
    real = plan_experiment(_spec("mnist-ipu", "execution.steps_per_execution=epoch"))

    assert plan.step is not None
    assert real.step is not None
    assert plan.step.launch_us == pytest.approx(2780 / 1000)
    assert plan.ipu_step_us == pytest.approx(
        real.ipu_step_us - real.step.launch_us + 2.78
    )
    # An epoch of its own is started once.
    assert plan.epoch_us == pytest.approx(10 * (plan.ipu_step_us - 2.78) + 2780)


def test_an_epoch_too_short_for_its_figures_says_so() -> None:
    def said(*changes: str) -> str:
        plan = plan_experiment(_spec("mnist-ipu-faster", *changes))
        return " ".join(
            " ".join(document_text(plan_document(plan, ""), TextStyle(200))).split()
        )

    made_up = said(*MADE_UP, "data.train_samples=640")
    assert "a steady state, with executions of 1000 steps" in made_up
    assert "an epoch of 10 steps is too short for it: 275 us more a step" in made_up
    assert "too short" not in said(*MADE_UP, "data.train_samples=64000")
    assert "an epoch of 10 steps is too short for a steady state" in said(
        "data.train_samples=640"
    )
    assert "steady" not in said()


@pytest.mark.parametrize("ipus", [1, 2, 4, 64, 256])
@pytest.mark.parametrize(
    "changes", [(), ("pipeline.stages=[0,0,0,0,1,1,1]",), (TEN,)], ids=str
)
def test_made_up_samples_are_enough_for_any_number_of_ipus(
    ipus: int, changes: tuple[str, ...]
) -> None:
    if ipus == 1 and changes and "pipeline" in changes[0]:
        ipus = 2
    spec = _spec(
        "mnist-ipu",
        *MADE_UP,
        "data.train_samples=1",
        "data.test_samples=1",
        "execution.system=Pod256",
        f"ipu.auto_select_ipus={ipus}",
        "execution.hosts=1",
        f"execution.gradient_accumulation={4 if changes[:1] != (TEN,) else 1}",
        *changes,
    )
    plan = plan_experiment(spec)

    assert [item for item in plan.problems if item.severity is Severity.ERROR] == []
    assert plan.steps_per_epoch % training_steps_per_execution(spec) == 0


def test_pipelined_predictions_are_of_a_steady_state_too() -> None:
    from workbench.planning.experiment_plan import plan_inference

    plans = [
        plan_inference(
            _spec("mnist-ipu-pipelined", *MADE_UP, f"data.test_samples={samples}")
        )
        for samples in (1, 20_000)
    ]
    assert plans[0].ipu_step_us == plans[1].ipu_step_us
    assert plans[0].bubble_fraction == plans[1].bubble_fraction < 0.01


def test_more_made_up_samples_than_the_memory_holds_are_refused() -> None:
    spec = _spec("mnist-ipu", *MADE_UP, "data.train_samples=1000000000")

    with pytest.raises(DatasetError, match="more than the memory"):
        load_prepared(spec)


@pytest.mark.parametrize("samples", [1, 63])
def test_repeated_data_have_a_whole_batch(samples: int) -> None:
    loaded = load_experiment(
        "mnist-ipu",
        [
            "data.preparation=repeat",
            "train.steps_per_epoch=10",
            f"data.train_samples={samples}",
        ],
    )

    assert loaded.spec is None
    (problem,) = loaded.problems
    assert problem.where == "data.train_samples"
    assert str(problem.problem).endswith("cannot fill a batch of 64")
