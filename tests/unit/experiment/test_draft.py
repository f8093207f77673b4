"""An experiment while it is being changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_runtime.plan.problem import Severity
from workbench.editing.draft import Draft
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import parse_value, value_text
from workbench.experiment.preset_store import list_presets, load_preset


@pytest.fixture
def draft() -> Draft:
    return Draft(load_preset("mnist-ipu-pipelined"))


def test_new_draft_is_the_preset(draft: Draft) -> None:
    assert draft.changes() == {}
    assert draft.overrides() == []
    assert draft.why_not_run == ""
    assert draft.plan is not None
    assert draft.preset_plan is not None
    assert draft.plan.ipu_step_us == draft.preset_plan.ipu_step_us


def test_change_shows_in_plan_and_overrides(draft: Draft) -> None:
    draft.set_text("data.batch_size", "32")
    assert draft.overrides() == ["data.batch_size=32"]
    assert draft.plan is not None
    assert draft.plan.request.batch_size == 32


def test_wrong_text_stays_with_its_reason_and_the_last_figures(draft: Draft) -> None:
    draft.set_text("data.batch_size", "32")
    before = draft.plan
    draft.set_text("data.batch_size", "many")
    assert draft.spec is None
    assert not draft.valid
    assert draft.plan is before
    problem = draft.problem_at("data.batch_size")
    assert problem is not None
    assert problem.severity is Severity.ERROR
    assert "many" in draft.why_not_run


def test_value_that_only_the_plan_refuses_keeps_the_last_figures(draft: Draft) -> None:
    before = draft.plan
    draft.set_text("execution.gradient_accumulation", "6")
    assert not draft.valid
    assert draft.plan is before
    problem = draft.problem_at("execution.gradient_accumulation")
    assert problem is not None
    draft.set({"execution.gradient_accumulation": problem.suggestion})
    assert draft.valid


def test_trial_changes_nothing(draft: Draft) -> None:
    assert draft.trial("data.batch_size", "16") is None
    assert draft.trial("data.batch_size", "-1") is not None
    assert draft.trial("execution.gradient_accumulation", "6") is not None
    assert draft.changes() == {}


def test_undo_and_redo_go_through_all_changes(draft: Draft) -> None:
    draft.set_text("data.batch_size", "32")
    draft.set({"train.epochs": 1, "train.optimizer": "adam"})
    assert draft.undo()
    assert list(draft.changes()) == ["data.batch_size"]
    assert draft.undo()
    assert not draft.undo()
    assert draft.redo()
    assert draft.redo()
    assert not draft.redo()
    assert list(draft.changes()) == [
        "data.batch_size",
        "train.optimizer",
        "train.epochs",
    ]


def test_change_after_undo_forgets_what_was_undone(draft: Draft) -> None:
    draft.set_text("data.batch_size", "32")
    draft.undo()
    draft.set_text("train.epochs", "1")
    assert not draft.redo()
    assert list(draft.changes()) == ["train.epochs"]


def test_same_value_is_no_change(draft: Draft) -> None:
    draft.set_text("data.batch_size", "64")
    assert not draft.undo()


def test_restore_gives_the_presets_value(draft: Draft) -> None:
    draft.set_text("data.batch_size", "32")
    draft.restore(["data.batch_size"])
    assert draft.changes() == {}


def test_next_choice_goes_round(draft: Draft) -> None:
    seen = []
    for _ in range(4):
        assert draft.next_choice("pipeline.schedule")
        seen.append(draft.value("pipeline.schedule"))
    assert seen == ["Interleaved", "Sequential", "Grouped", "Interleaved"]
    assert not draft.next_choice("data.batch_size")


@pytest.mark.parametrize("name", [preset.name for preset in list_presets()])
def test_every_value_can_be_typed_again(name: str) -> None:
    draft = Draft(load_preset(name))
    for path, field in FIELD_OF_PATH.items():
        assert parse_value(field, draft.text(path)) == draft.value(path), path


@given(st.text(max_size=12))
def test_no_text_breaks_a_field(text: str) -> None:
    draft = Draft(load_preset("mnist-dense"))
    draft.set_text("execution.steps_per_execution", text)
    assert isinstance(draft.why_not_run, str)


def test_values_are_written_as_they_are_typed() -> None:
    assert value_text(True) == "true"
    assert value_text([0, 0, 1]) == "[0, 0, 1]"
