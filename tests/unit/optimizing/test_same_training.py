"""What is advised trains as the experiment does, unless something else is asked."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_runtime.plan.rules.weight_updates import effective_rate, samples_per_update
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import list_presets
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.outcome import optimize
from workbench.optimizing.search import Search
from workbench.optimizing.search_space import SearchSpace
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_request
from workbench.planning.same_training import (
    same_rate,
    shared_out,
    training_changes,
    update_samples,
)
from workbench.views.layout import TextStyle, document_text
from workbench.views.outcome import outcome_document, outcome_row

PRESETS = [preset.name for preset in list_presets()]


def _spec(name: str, *changes: str) -> ExperimentSpec:
    spec = load_experiment(name, changes).spec
    assert spec is not None
    return spec


@pytest.mark.parametrize("name", PRESETS)
def test_the_best_of_every_preset_has_its_updates(name: str) -> None:
    spec = _spec(name)
    own = plan_request(spec)
    space = SearchSpace(spec, max(own.ipus, 4), update_samples(spec))
    # What a search that is cut short has found counts as well.
    found = Search(space, Aim(Goal.THROUGHPUT, 1), work=2e6).run().found
    assert found
    for item in found.values():
        best = plan_request(item.spec)
        assert samples_per_update(best) == samples_per_update(own)
        assert effective_rate(best) == pytest.approx(effective_rate(own), rel=1e-5)
        assert training_changes(spec, item.spec) == ()


def test_other_updates_are_a_choice_with_a_line_of_their_own() -> None:
    spec = _spec("mnist-ipu-faster", "data.batch_size=512")
    kept = optimize(SearchSpace(spec, 4, 512), Aim(Goal.THROUGHPUT, 1))
    assert kept.best[0].choice.replicas == 4
    lines = "\n".join(document_text(outcome_document(kept, "kept"), TextStyle()))
    assert "512 samples per update, " in lines
    assert "updates an epoch" not in lines
    assert "keep the effective learning rate" in lines
    free = optimize(SearchSpace(spec, 4), Aim(Goal.THROUGHPUT, 1))
    lines = "\n".join(document_text(outcome_document(free, "free"), TextStyle()))
    assert "any update, " in lines
    assert "samples per update instead of 512: 16 times fewer updates an ep" in lines
    row = json.loads(json.dumps(outcome_row(free, "free")))
    assert row["update_samples"] == 0
    assert "times fewer" in row["best"][0]["training_changes"][0]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("stages", [2, 4])
def test_balancing_keeps_updates_where_the_schedule_can(name: str, stages: int) -> None:
    spec = _spec(name)
    samples = update_samples(spec)
    balanced = balanced_experiment(spec, stages, samples=samples, tries=1)
    if not balanced.result.feasible:
        pytest.skip("no stages fit")
    own, new = plan_request(spec), plan_request(balanced.spec)
    assert effective_rate(new) == pytest.approx(effective_rate(own), rel=1e-5)
    told = balanced.training
    assert bool(told) == (samples_per_update(new) != samples)


def test_epochs_stay_as_long_where_batches_are_smaller() -> None:
    spec = _spec("mnist-dense", "data.batch_size=64")
    staged = balanced_experiment(spec, 2, samples=64).spec
    assert staged.data.batch_size == 16
    assert staged.execution.gradient_accumulation == 4
    assert staged.execution.accumulation_reduction == "mean"
    assert staged.train.steps_per_epoch == 4 * spec.train.steps_per_epoch
    assert staged.train.learning_rate == spec.train.learning_rate


def test_replicas_that_are_summed_divide_the_rate() -> None:
    one = _spec("mnist-ipu-faster")
    four = _spec("mnist-ipu-faster", "ipu.auto_select_ipus=4")
    assert same_rate(one, four).train.learning_rate == one.train.learning_rate / 4
    assert same_rate(four, one).train.learning_rate == one.train.learning_rate * 4
    for means in ("execution.instances=2", "execution.api=ipu_estimator"):
        mean = _spec("mnist-ipu-faster", "ipu.auto_select_ipus=4", means)
        assert same_rate(one, mean).train.learning_rate == one.train.learning_rate
    adam = "train.optimizer=adam"
    plain, many = (
        _spec("mnist-ipu", adam),
        _spec("mnist-ipu", adam, "ipu.auto_select_ipus=4"),
    )
    assert same_rate(plain, many).train.learning_rate == plain.train.learning_rate


@given(
    st.integers(1, 4096), st.integers(1, 16), st.integers(1, 128), st.integers(1, 16)
)
def test_an_update_is_shared_out_exactly_wherever_it_can_be(
    samples: int, replicas: int, batch_size: int, multiple: int
) -> None:
    size, count = shared_out(samples, replicas, batch_size, multiple, multiple)
    assert size >= 1
    assert count >= multiple
    assert count % multiple == 0
    if samples % (replicas * multiple) == 0:
        assert size * count * replicas == samples
    if samples == replicas * multiple * batch_size:
        assert (size, count) == (batch_size, multiple)
