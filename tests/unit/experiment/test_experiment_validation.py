"""Every kind of mistake in an experiment, alone and all at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ipu_runtime.plan.problem import Severity
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate


def _tables(preset: str = "mnist-ipu") -> dict[str, Any]:
    return copy.deepcopy(dict(load_preset(preset).tables))


def _problems(tables: dict[str, Any]) -> dict[str, str]:
    return {problem.where: str(problem) for problem in validate(tables)[1]}


def test_five_different_mistakes_are_reported_at_once() -> None:
    tables = _tables()
    tables["data"]["batch_sise"] = 64  # unknown
    tables["train"]["epochs"] = "three"  # wrong type
    tables["train"]["learning_rate"] = -1.0  # out of range
    del tables["experiment"]["title"]  # missing
    tables["data"]["labels"] = "sparse"  # contradicts the loss
    spec, problems = validate(tables, "my.toml")
    assert spec is None
    assert [str(problem) for problem in problems] == [
        "my.toml: experiment.title: is missing; one line that says what the "
        "experiment is",
        "my.toml: data.batch_sise: unknown field, did you mean batch_size?",
        "my.toml: train.learning_rate: -1.0 is out of range; valid: a number, at "
        "least 0",
        'my.toml: train.epochs: "three" is not a whole number; valid: a whole number '
        "from 1 to 100000",
        "my.toml: train.loss: categorical_crossentropy needs categorical labels, but "
        "data.labels is sparse; use sparse_categorical_crossentropy, or data.labels = "
        "categorical",
    ]


@pytest.mark.parametrize(
    ("section", "changes", "where", "says"),
    [
        ("train", {"epochs": True}, "train.epochs", "true is not a whole number"),
        ("train", {"learning_rate": "a"}, "train.learning_rate", "not a number"),
        ("train", {"learning_rate": float("nan")}, "train.learning_rate", "nan"),
        ("data", {"preparation": "trimm"}, "data.preparation", "did you mean trim?"),
        ("data", {"dataset": "minst"}, "data.dataset", "neither a known data set"),
        ("data", {"train_samples": 60001}, "data.train_samples", "60000"),
        (
            "data",
            {"train_samples": 63},
            "data.train_samples",
            "fill a batch of 64",
        ),
        ("data", {"preparation": "none"}, "data.preparation", "partial batch"),
        ("data", {"preparation": "repeat"}, "train.steps_per_epoch", "no end"),
        ("train", {"steps_per_epoch": 938}, "train.steps_per_epoch", "937"),
        ("train", {"test_only": True}, "train.test_only", "ipu_estimator"),
        ("execution", {"api": "ipu_pipeline_estimator"}, "pipeline.stages", "stage"),
        ("execution", {"steps_per_execution": 0}, "execution.steps_per_execution", "1"),
        (
            "execution",
            {"steps_per_execution": "all"},
            "execution.steps_per_execution",
            '"epoch"',
        ),
        ("pipeline", {"stages": [0, -1]}, "pipeline.stages", "out of range"),
        ("pipeline", {"locked": ["conv"]}, "pipeline.locked", "did you mean conv2d?"),
        ("ipu", {"auto_select_ipus": "two"}, "ipu.auto_select_ipus", "whole number"),
        ("ipu", {"select_ipus": [1]}, "ipu", "Only one"),
        ("ipu", {"io_tiles": {"num_io_tile": 1}}, "ipu.io_tiles.num_io_tile", "tiles?"),
        ("ipu", {"io_tiles": 3}, "ipu.io_tiles", "group of fields"),
        ("ipu", {"num_io_tiles": 3}, "ipu.num_io_tiles", "io_tiles.num_io_tiles"),
        ("ipu", {"selection_order": "SNAK"}, "ipu.selection_order", "SNAKE"),
        (
            "ipu",
            {"convolutions.poplar_options": {"a": 1}},
            "ipu.convolutions.poplar_options",
            "table of texts",
        ),
        ("experiment", {"figures": [{"loss": 1}]}, "experiment.figures[0].epoch", "is"),
        ("experiment", {"figures": 3}, "experiment.figures", "[[experiment.figures]]"),
        ("experiment", {"seed": 2**31}, "experiment.seed", "out of range"),
    ],
)
def test_a_single_mistake(
    section: str, changes: dict[str, Any], where: str, says: str
) -> None:
    tables = _tables()
    tables.setdefault(section, {}).update(changes)
    assert validate(tables)[0] is None
    problems = _problems(tables)
    assert list(problems) == [where]
    assert says in problems[where]


@pytest.mark.parametrize(
    ("preset", "api", "where"),
    [
        ("mnist-ipu-pipelined", "ipu_estimator", "execution.api"),
        ("mnist-padded", "ipu_estimator", "data.preparation"),
    ],
)
def test_estimator_rules(preset: str, api: str, where: str) -> None:
    tables = _tables(preset)
    tables["execution"]["api"] = api
    assert list(_problems(tables)) == [where]


def test_cpu_has_neither_pipeline_nor_accumulation() -> None:
    tables = _tables("mnist-ipu-pipelined")
    tables["execution"]["api"] = "cpu"
    assert list(_problems(tables)) == [
        "pipeline.stages",
        "execution.gradient_accumulation",
    ]


def test_unknown_section_and_section_that_is_no_table() -> None:
    tables = _tables()
    tables["trian"] = tables.pop("train")
    tables["pipeline"] = 3
    problems = _problems(tables)
    assert problems["trian"] == "trian: unknown section, did you mean train?"
    assert problems["pipeline"].startswith("pipeline: must be a table")
    assert len(problems) == 2


def test_a_misspelt_field_causes_no_second_complaint_about_its_default() -> None:
    tables = _tables("mnist-dense")
    tables["data"]["preparations"] = tables["data"].pop("preparation")
    assert list(_problems(tables)) == ["data.preparations"]


def test_model_that_does_not_suit_the_data() -> None:
    tables = _tables()
    tables["model"]["layers"][0]["shape"] = [32, 32, 3]
    tables["model"]["layers"][-1]["units"] = 9
    problems = _problems(tables)
    assert "28x28x1" in problems["model.layers[0].shape"]
    assert "10 classes" in problems["model.layers"]


def test_missing_layers() -> None:
    tables = _tables()
    del tables["model"]
    assert _problems(tables)["model.layers"].startswith("model.layers: is missing")


def test_ipu_fields_may_be_nested_or_dotted() -> None:
    nested, dotted = _tables(), _tables()
    nested["ipu"]["io_tiles"] = {"num_io_tiles": 32}
    dotted["ipu"]["io_tiles.num_io_tiles"] = 32
    assert validate(nested)[0] == validate(dotted)[0] is not None


def test_warnings_leave_a_valid_experiment() -> None:
    tables = _tables()
    tables["ipu"]["optimizations"] = {"enable_fast_math": True}
    tables["execution"]["model_dir"] = "somewhere"
    spec, problems = validate(tables)
    assert spec is not None
    assert spec.ipu["optimizations.enable_fast_math"] is True
    assert [problem.severity for problem in problems] == [Severity.WARNING] * 2


def test_a_cross_entropy_of_logits_is_warned_about() -> None:
    tables = _tables()
    ending = next(
        layer
        for layer in tables["model"]["layers"]
        if layer.get("activation") == "softmax"
    )
    assert validate(tables)[1] == ()
    del ending["activation"]
    spec, (problem,) = validate(tables)
    assert spec is not None
    assert (problem.where, problem.severity) == ("train.loss", Severity.WARNING)
    assert "has no softmax" in str(problem)
    tables["train"]["loss"] = "mse"
    assert validate(tables)[1] == ()


@pytest.mark.parametrize(
    "garbage", [{}, {"model": 3}, {"model": {"layers": [3]}}, {"experiment": []}]
)
def test_garbage_gives_problems_not_exceptions(garbage: dict[str, Any]) -> None:
    spec, problems = validate(garbage)
    assert spec is None
    assert problems
