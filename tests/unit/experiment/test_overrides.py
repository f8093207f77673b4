"""`--set a.b=c` and what the environment changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.overrides import (
    apply_overrides,
    environment_overrides,
    set_value,
)
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import field_value


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("train.epochs=5", "train.epochs", 5),
        ("train.learning_rate=1e-3", "train.learning_rate", 0.001),
        ("train.learning_rate=1", "train.learning_rate", 1.0),
        ("train.evaluate=off", "train.evaluate", False),
        (
            "execution.steps_per_execution=epoch",
            "execution.steps_per_execution",
            "epoch",
        ),
        ("execution.steps_per_execution=10", "execution.steps_per_execution", 10),
        ("pipeline.stages=0,0,1", "pipeline.stages", [0, 0, 1]),
        ("pipeline.stages=[0, 1]", "pipeline.stages", [0, 1]),
        ("pipeline.stages=", "pipeline.stages", []),
        ("pipeline.locked=conv2d, dense", "pipeline.locked", ["conv2d", "dense"]),
        ("ipu.auto_select_ipus=4", "ipu.auto_select_ipus", 4),
        ("ipu.auto_select_ipus=1,2", "ipu.auto_select_ipus", [1, 2]),
        ("ipu.selection_order=SNAKE", "ipu.selection_order", "SNAKE"),
        (
            "ipu.convolutions.poplar_options=partialsType=half",
            "ipu.convolutions.poplar_options",
            {"partialsType": "half"},
        ),
        ("experiment.title=a = b", "experiment.title", "a = b"),
    ],
)
def test_values_are_read_by_the_fields_kind(
    override: str, path: str, value: Any
) -> None:
    tables, problems = apply_overrides(load_preset("mnist-ipu").tables, [override])
    assert problems == ()
    assert field_value(tables, path) == value
    assert type(field_value(tables, path)) is type(value)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.epoch=1", "did you mean train.epochs?"),
        ("epochs=1", "did you mean train.epochs?"),
        ("train.epochs", "write it as field=value"),
        ("train.epochs=many", "not a whole number"),
        ("train.epochs=0", "out of range"),
        ("train.optimizer=SGD", "did you mean sgd?"),
        ("model.layers[99].units=1", "there is no layer 99"),
    ],
)
def test_wrong_changes_are_refused(override: str, says: str) -> None:
    before = load_preset("mnist-ipu").tables
    tables, problems = apply_overrides(before, [override])
    assert tables == before
    assert [says in str(problem) for problem in problems] == [True]


def test_a_layers_setting_can_be_changed() -> None:
    loaded = load_experiment("mnist-ipu", ["model.layers[1].filters=8"])
    assert loaded.spec is not None
    assert loaded.spec.model.layers[1].settings["filters"] == 8


def test_the_preset_is_left_as_it_was() -> None:
    preset = load_preset("mnist-ipu")
    before = copy.deepcopy(preset.tables)
    set_value(preset.tables, "ipu.io_tiles.num_io_tiles", 3)
    set_value(preset.tables, "model.layers[1].filters", 3)
    assert preset.tables == before


def test_precedence_and_sources() -> None:
    environment = {
        "IPU_WORKBENCH_TRAIN__EPOCHS": "7",
        "IPU_WORKBENCH_DATA__BATCH_SIZE": "16",
        "IPU_WORKBENCH_THEME": "dark",
        "PATH": "/bin",
    }
    loaded = load_experiment("mnist-ipu", ["data.batch_size=8"], environment)
    assert loaded.spec is not None
    assert loaded.spec.train.epochs == 7
    assert loaded.spec.data.batch_size == 8
    assert loaded.sources["train.epochs"] == "IPU_WORKBENCH_TRAIN__EPOCHS"
    assert loaded.sources["data.batch_size"] == "--set"
    assert loaded.sources["train.loss"] == "mnist-ipu.toml"
    assert loaded.sources["train.momentum"] == "default"


def test_environment_without_changes() -> None:
    assert environment_overrides({"IPU_WORKBENCH_HOME": "x", "HOME": "y"}) == []


@given(st.text(max_size=40))
def test_any_text_gives_tables_or_a_problem(text: str) -> None:
    tables, problems = apply_overrides({}, [text])
    assert bool(tables) != bool(problems)
