"""Losses of outputs: which suit a model and its data, and what is said if not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.data.dataset import load_prepared
from workbench.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    GivenTensor,
    dataset_facts,
    with_label_range,
)
from workbench.experiment.experiment_loading import (
    LoadedExperiment,
    load_experiment,
    source_preset,
)
from workbench.experiment.suitable_loss import with_suitable_loss
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.models.source_model import SourceModel, TensorFacts
from workbench.planning.experiment_plan import plan_request

LOGITS = "sparse_categorical_crossentropy_from_logits"
PRESET = """
[experiment]
title = "Two ends"

[data]
dataset = "{dataset}"
batch_size = 4

[train]
{train}

[[model.layers]]
name = "entry"
kind = "Input"
shape = [6]

[[model.layers]]
name = "first"
kind = "Dense"
units = {units}
{activation}
"""
SECOND = """
[[model.layers]]
name = "second"
kind = "Dense"
units = 5
inputs = ["entry"]
"""


def _chosen(
    *ends: TensorFacts, labels: tuple[GivenTensor, ...] = (), form: str = ""
) -> list[str]:
    tables = dict(source_preset("keras:ResNet50").tables)
    if form:
        tables["data"] = {**tables["data"], "labels": form}
    facts = DatasetFacts(8, 8, None, None, outputs=labels) if labels else None
    changed, why = with_suitable_loss(tables, SourceModel(None, outputs=ends), facts)
    assert len(why) == len(ends)
    return changed["train"].get("losses") or [changed["train"]["loss"]]


def _end(width: int, activation: str, name: str = "out") -> TensorFacts:
    return TensorFacts(name, (width,), "float32", activation)


CLASSES = GivenTensor("", (), "int64", (0, 9))
YES_NO = GivenTensor("", (), "int64", (0, 1))
REAL = GivenTensor("", (), "float32")


@pytest.mark.parametrize(
    ("end", "labels", "loss"),
    [
        (_end(10, "softmax"), None, "sparse_categorical_crossentropy"),
        (_end(10, "softmax"), CLASSES, "sparse_categorical_crossentropy"),
        (
            _end(10, "softmax"),
            GivenTensor("", (10,), "float32"),
            "categorical_crossentropy",
        ),
        (_end(1, "sigmoid"), None, "binary_crossentropy"),
        (_end(1, "sigmoid"), YES_NO, "binary_crossentropy"),
        (_end(10, "linear"), CLASSES, LOGITS),
        (_end(10, "linear"), None, "mse"),
        (_end(10, "linear", "my_logits"), None, LOGITS),
        (
            _end(10, "linear"),
            GivenTensor("", (10,), "uint8", (0, 1)),
            "binary_crossentropy_from_logits",
        ),
        (_end(1, "linear"), YES_NO, "binary_crossentropy_from_logits"),
        (_end(1, "linear"), CLASSES, "mse"),
        (_end(1, "linear"), REAL, "mse"),
        (_end(4, ""), None, "mse"),
    ],
)
def test_the_loss_follows_the_output_and_its_labels(
    end: TensorFacts, labels: GivenTensor | None, loss: str
) -> None:
    assert _chosen(end, labels=(labels,) if labels else ()) == [loss]


def test_every_output_has_a_loss_of_its_own() -> None:
    ends = _end(3, "softmax", "kind"), _end(1, "linear", "price")
    assert _chosen(*ends) == ["sparse_categorical_crossentropy", "mse"]
    assert _chosen(*ends, form="categorical") == ["categorical_crossentropy", "mse"]
    assert _chosen(_end(4, "linear", "a"), _end(1, "linear", "b")) == ["mse"]


def _load(
    folder: Path,
    train: str,
    dataset: object = "synthetic",
    units: int = 1,
    activation: str = "",
    more: str = "",
) -> LoadedExperiment:
    path = folder / "own.toml"
    activation = f'activation = "{activation}"' if activation else ""
    text = PRESET.format(
        dataset=dataset, train=train, units=units, activation=activation
    )
    path.write_text(text + more)
    return load_experiment(str(path))


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (
            'losses = ["mse"]',
            "train.losses: 1 given, but the model has 2 outputs: first",
        ),
        (
            'losses = ["mse", "msa"]',
            '"msa" is not one of its choices; did you mean mse',
        ),
        ('losses = "mse"', "is not a list of texts"),
    ],
)
def test_losses_that_do_not_suit_the_outputs_are_one_line(
    tmp_path: Path, train: str, words: str
) -> None:
    (problem,) = _load(tmp_path, train, more=SECOND).problems
    assert words in str(problem)


def test_a_number_per_sample_is_no_choice_among_classes(tmp_path: Path) -> None:
    more = '[[model.layers]]\nname = "one"\nkind = "Reshape"\ntarget_shape = []\n'
    loaded = _load(tmp_path, 'loss = "categorical_crossentropy"', more=more)
    assert "needs classes, but one is one number per sample" in str(loaded.problems[0])
    assert _load(tmp_path, 'loss = "mse"', more=more).spec is not None


@pytest.mark.parametrize(
    ("loss", "activation", "wanted"),
    [
        ("binary_crossentropy", "", "binary_crossentropy_from_logits"),
        ("binary_crossentropy_from_logits", "sigmoid", "binary_crossentropy"),
    ],
)
def test_logits_and_probabilities_are_not_mixed_up_in_silence(
    tmp_path: Path, loss: str, activation: str, wanted: str
) -> None:
    loaded = _load(tmp_path, f'loss = "{loss}"', activation=activation)
    assert loaded.spec is not None
    assert [problem.suggestion for problem in loaded.problems] == [wanted]
    assert not _load(tmp_path, f'loss = "{wanted}"', activation=activation).problems


def test_losses_are_kept_in_records_and_their_labels_are_planned(
    tmp_path: Path,
) -> None:
    spec = _load(tmp_path, f'losses = ["mse", "{LOGITS}"]', more=SECOND).spec
    assert spec is not None
    assert validate(spec_to_tables(spec))[0] == spec
    # A number for the first output, a class number for the second.
    assert plan_request(spec).label_values == 2
    data = load_prepared(spec)
    assert [part.shape[1:] for part in data.train.y] == [(1,), ()]
    assert data.train.y[1].max() == 4


def _file(path: Path, labels: np.ndarray) -> Path:
    x = np.zeros((len(labels), 6), np.float32)
    np.savez(path, x_train=x, y_train=labels, x_test=x, y_test=labels)
    return path


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.bool_])
def test_answers_of_yes_and_no_take_the_shape_of_the_output(
    tmp_path: Path, dtype: type
) -> None:
    path = _file(tmp_path / "own.npz", np.array([0, 1, 1, 0], dtype))
    loss = 'loss = "binary_crossentropy"'
    spec = _load(tmp_path, loss, path, activation="sigmoid").spec
    assert spec is not None
    labels = load_prepared(spec).train.y
    assert labels.dtype == np.float32
    assert labels.tolist() == [[0], [1], [1], [0]]


def test_several_answers_are_taken_as_they_are_and_classes_one_hot(
    tmp_path: Path,
) -> None:
    several = np.array([[0, 1, 1], [1, 1, 1], [0, 0, 0], [0, 1, 0]])
    loss = 'loss = "binary_crossentropy_from_logits"'
    spec = _load(tmp_path, loss, _file(tmp_path / "own.npz", several), units=3).spec
    assert spec is not None
    assert (load_prepared(spec).train.y == several).all()
    classes = _file(tmp_path / "classes.npz", np.array([0, 1, 2, 0]))
    spec = _load(tmp_path, loss, classes, units=3).spec
    assert spec is not None
    assert (load_prepared(spec).train.y == np.eye(3)[[0, 1, 2, 0]]).all()


def test_answers_beyond_yes_and_no_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path / "own.npz", np.array([0, 1, 2, 3]))
    loss = 'loss = "binary_crossentropy"'
    spec = _load(tmp_path, loss, path, activation="sigmoid").spec
    assert spec is not None
    with pytest.raises(DatasetError, match="go from 0 to 3, but binary_crossentropy"):
        load_prepared(spec)
    table = tmp_path / "own.csv"
    rows = [f"1,2,3,4,5,6,{label}" for label in (0, 1, 2, 0) * 5]
    table.write_text("\n".join(["a,b,c,d,e,f,label", *rows]))
    (problem,) = _load(tmp_path, loss, table, activation="sigmoid").problems
    assert "takes 0 or 1, but the labels go from 0 to 2" in str(problem)


@pytest.mark.parametrize(
    ("labels", "highest"), [([0, 1, 1, 0], 1), ([18, 90, 41, 64], 90)]
)
def test_the_range_of_labels_in_a_file_is_known_where_a_loss_is_chosen(
    tmp_path: Path, labels: list[int], highest: int
) -> None:
    path = str(_file(tmp_path / "own.npz", np.array(labels)))
    facts = with_label_range(dataset_facts(path), path)
    assert facts.labels == (min(labels), highest)


def test_whole_numbers_can_be_met(tmp_path: Path) -> None:
    path = _file(tmp_path / "own.npz", np.array([20, 31, -4, 8]))
    spec = _load(tmp_path, 'loss = "mse"', path).spec
    assert spec is not None
    assert load_prepared(spec).train.y.tolist() == [[20], [31], [-4], [8]]
