"""Other stages bring other counts, and one undo takes all of it back."""

from __future__ import annotations

import itertools

import pytest

from ipu_runtime.plan.rules.weight_updates import update_changes
from ipu_runtime.reports.plan_words import advice_words, reason_words
from workbench.editing.draft import Draft, blocking_problems, with_values
from workbench.editing.fixes import change_words, fixing_values
from workbench.editing.stage_editor import StageEditor
from workbench.editing.stage_moves import cut_evenly, remove_stage
from workbench.experiment.preset_store import list_presets, load_preset
from workbench.planning.advising import advise_experiment
from workbench.planning.experiment_plan import plan_experiment

ACCUMULATION = "execution.gradient_accumulation"


def editor_of(name: str) -> StageEditor:
    return StageEditor(Draft(load_preset(name)))


@pytest.mark.parametrize(
    ("name", "count", "also"),
    [
        (
            "mnist-ipu-faster",
            4,
            "batch_size 64 to 8, gradient_accumulation 1 to 8, accumulation_reduction "
            "sum to mean, auto_select_ipus 1 to 4",
        ),
        (
            "mnist-ipu-faster",
            3,
            "batch_size 64 to 11, gradient_accumulation 1 to 6, accumulation_reduction "
            "sum to mean, auto_select_ipus 1 to 4; 66 samples per update instead of 64",
        ),
        (
            "bert-large-pod16",
            8,
            "gradient_accumulation 8 to 16, learning_rate 0.0001 to 0.0002, "
            "replicas 4 to 2",
        ),
        (
            "mnist-dense-8-stages",
            7,
            "batch_size 32 to 37, gradient_accumulation 16 to 14, learning_rate 0.01 "
            "to 0.0114286; 518 samples per update instead of 512: 1.01 times fewer",
        ),
        ("mnist-dense-8-stages", 1, "auto_select_ipus 8 to 1"),
        ("cifar10-ipu-pipeline-estimator", 1, "api ipu_pipeline_estimator to"),
    ],
)
def test_counts_follow_the_number_of_stages(name: str, count: int, also: str) -> None:
    editor = editor_of(name)
    draft = editor.draft
    edited = editor.apply(cut_evenly(draft.stages, editor.weights, count))
    assert max(draft.stages) + 1 == count
    assert draft.why_not_run == ""
    assert edited.also.startswith(also)
    draft.undo()
    assert draft.changes() == {}


def test_fewer_micro_batches_where_the_data_are_few() -> None:
    editor = editor_of("bert-large-pod16")
    editor.draft.set({"data.train_samples": 24, ACCUMULATION: 6})
    editor.apply(cut_evenly(editor.draft.stages, editor.weights, 3))
    assert editor.draft.spec is not None
    assert editor.draft.value(ACCUMULATION) == 6


def test_stages_are_joined_while_another_value_is_wrong() -> None:
    editor = editor_of("mnist-dense-8-stages")
    editor.draft.set_text("data.batch_size", "many")
    for count in (7, 6, 5):
        editor.apply(remove_stage(editor.draft.stages, editor.weights))
        assert max(editor.draft.stages) + 1 == count


def test_mending_lets_the_experiment_run_and_changes_nothing_itself() -> None:
    draft = Draft(load_preset("mnist-ipu-pipelined"))
    assert fixing_values(draft) == {}
    draft.set({ACCUMULATION: 6, "ipu.auto_select_ipus": 3})
    values = fixing_values(draft)
    assert values == {
        "data.batch_size": 48,
        ACCUMULATION: 8,
        "train.learning_rate": 0.0075,
        "ipu.auto_select_ipus": 2,
    }
    assert blocking_problems(with_values(draft.tables, values)) == []
    assert change_words(draft, values) == (
        "batch_size 64 to 48, gradient_accumulation 6 to 8, learning_rate 0.01 to "
        "0.0075, auto_select_ipus 3 to 2"
    )
    assert draft.value(ACCUMULATION) == 6


def test_even_cuts_share_the_work() -> None:
    weights = [4.0, 1.0, 1.0, 1.0, 1.0, 4.0]
    assert cut_evenly((0,) * 6, weights, 3).stages == (0, 1, 1, 1, 1, 2)
    for count in range(2, 7):
        stages = cut_evenly((0,) * 6, weights, count).stages
        assert [b - a for a, b in itertools.pairwise(sorted(set(stages)))] == [1] * (
            count - 1
        )


def test_advice_is_the_best_single_cut_by_the_plan() -> None:
    draft = Draft(load_preset("mnist-ipu-pipelined"))
    assert draft.spec is not None
    assert draft.plan is not None
    found = advise_experiment(draft.spec, draft.plan)
    advice = next(item for item in found if item.cuts)
    times = {}
    for cut in range(1, 7):
        stages = [0] * cut + [1] * (7 - cut)
        spec = Draft(load_preset("mnist-ipu-pipelined"))
        spec.set({"pipeline.stages": stages})
        assert spec.spec is not None
        times[tuple(stages)] = plan_experiment(spec.spec).ipu_us_per_batch
    assert advice.cuts == min(times, key=times.__getitem__)
    assert advice_words(advice) == (
        "cut after stage 0 down by one layer: 198 us per batch, 27 % less"
    )
    assert reason_words(advice) == (
        "the cut is 4.8 times smaller: links 115 us to 34.7 us"
    )
    assert advise_experiment(draft.spec, draft.plan, lambda: True) == ()


def test_locked_layers_are_not_advised_to_move() -> None:
    draft = Draft(load_preset("mnist-ipu-pipelined"))
    draft.set({"pipeline.locked": ["dense", "flatten"]})
    assert draft.spec is not None
    assert draft.plan is not None
    names = [layer.name for layer in draft.layers]
    for item in advise_experiment(draft.spec, draft.plan):
        for at, stage in enumerate(item.cuts):
            assert names[at] not in ("dense", "flatten") or stage == draft.stages[at]


@pytest.mark.parametrize("name", [preset.name for preset in list_presets()])
def test_advice_that_is_taken_is_as_fast_as_it_says_and_trains_the_same(
    name: str,
) -> None:
    draft = Draft(load_preset(name))
    assert draft.spec is not None
    assert draft.plan is not None
    own, found = draft.plan.request, advise_experiment(draft.spec, draft.plan)
    times = [item.us_per_batch for item in found]
    assert times == sorted(times)
    for item in found:
        draft.set(item.changes)
        assert draft.why_not_run == ""
        assert draft.spec is not None
        plan = plan_experiment(draft.spec)
        assert plan.ipu_us_per_batch == pytest.approx(item.us_per_batch)
        assert update_changes(own, plan.request) == ()
        assert item.before_us > item.after_us
        draft.undo()
