"""TF_POPLAR_FLAGS and POPLAR_ENGINE_OPTIONS."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipu_runtime.system.engine_options import (
    EngineOptionsError,
    current_engine_options,
    parse_engine_options,
)
from ipu_runtime.system.poplar_flags import (
    PoplarFlagsError,
    SyntheticDataCategory,
    current_flags,
    help_text,
    parse_flags,
    use_synthetic_data_for,
)
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment


def test_flags_are_read_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    assert not current_flags().use_ipu_model
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --ipu_model_tiles=16")
    assert current_flags().use_ipu_model
    assert current_flags().ipu_model_tiles == 16


def test_switches_take_true_and_false() -> None:
    assert parse_flags("--use_ipu_model=true").use_ipu_model
    assert not parse_flags("--use_ipu_model=false").use_ipu_model


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--use_ipu_modle", ["use_ipu_modle", "did you mean --use_ipu_model"]),
        ("--nonsense", ["--nonsense", "--help"]),
        ("use_ipu_model", ["use_ipu_model"]),
        ("--ipu_model_tiles=many", ["ipu_model_tiles", "many", "whole number"]),
        ("--use_ipu_model=perhaps", ["perhaps", "true or false"]),
        ("--synthetic_data_categories=food", ["food", "infeed"]),
        ("--synthetic_data_initializer=random", ["--use_synthetic_data"]),
    ],
)
def test_bad_flags_are_named_with_what_is_valid(text: str, words: list[str]) -> None:
    with pytest.raises(PoplarFlagsError) as raised:
        parse_flags(text)
    assert all(word in str(raised.value) for word in words)


def test_synthetic_data_covers_all_categories_or_the_named_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = parse_flags("--use_synthetic_data").synthetic
    assert everything == frozenset(SyntheticDataCategory)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=infeed,seed")
    assert use_synthetic_data_for(SyntheticDataCategory.Infeed)
    assert not use_synthetic_data_for(SyntheticDataCategory.Outfeed)


def test_help_says_which_flags_do_nothing_here() -> None:
    lines = help_text().splitlines()
    assert any("--use_ipu_model" in line and "no effect" not in line for line in lines)
    assert any("--allow_nans" in line and "no effect" in line for line in lines)


def test_engine_options_turn_reports_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"autoReport.all": "true", "autoReport.directory": "profiles"}'
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    options = current_engine_options()
    assert options.report
    assert options.report_directory == Path("profiles")
    assert not options.allow_out_of_memory


def test_no_engine_options_mean_defaults() -> None:
    assert not parse_engine_options("").report


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{autoReport.all: true}", ["not valid JSON"]),
        ("[]", ["JSON object"]),
        ('{"autoReport.all": true}', ["autoReport.all", "must be a text", '"true"']),
    ],
)
def test_bad_engine_options_say_what_is_wrong(text: str, words: list[str]) -> None:
    with pytest.raises(EngineOptionsError) as raised:
        parse_engine_options(text)
    assert all(word in str(raised.value) for word in words)


@pytest.mark.parametrize(("flags", "tiles"), [("", 1472), ("--use_ipu_model", 32)])
def test_fields_of_the_ipu_model_count_only_on_it(
    flags: str, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    preset = load_preset("mnist-dense")
    changed = {"ipu": {"ipu_model": {"tiles_per_ipu": 32}}}
    spec, problems = validate({**preset.tables, **changed})
    assert spec is not None, problems
    assert plan_experiment(spec).memory[0].tiles == tiles
