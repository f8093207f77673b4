"""Loading and preparing data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.data.dataset import PreparedData, load_prepared
from workbench.data.dataset_facts import DatasetError, dataset_facts
from workbench.experiment.experiment_loading import load_experiment


def _load(preset: str, *changes: str) -> PreparedData:
    loaded = load_experiment(preset, changes)
    assert loaded.spec is not None, loaded.problems
    return load_prepared(loaded.spec)


def test_trim_drops_what_does_not_fill_a_batch() -> None:
    data = _load("mnist-ipu", "data.train_samples=200", "data.test_samples=100")
    assert data.train.x.shape == (192, 28, 28, 1)
    assert data.test.x.shape == (64, 28, 28, 1)
    assert data.train.sample_weight is None
    assert "8 training samples dropped" in data.report()
    assert "36 test samples dropped" in data.report()


def test_pad_adds_zeros_with_weight_zero() -> None:
    data = _load("mnist-padded", "data.train_samples=100", "data.test_samples=64")
    weight = data.train.sample_weight
    assert weight is not None
    assert weight.tolist() == [1.0] * 100 + [0.0] * 28
    assert not data.train.x[100:].any()
    assert not data.train.y[100:].any()
    assert data.test.sample_weight is None
    assert data.report().endswith("28 training samples of zeros added")


def test_pixels_become_numbers_from_zero_to_one_and_labels_one_hot() -> None:
    data = _load("mnist-ipu", "data.train_samples=64", "data.test_samples=64")
    assert data.train.x.dtype == np.float32
    assert data.train.x.max() == 1.0
    assert data.train.y.shape == (64, 10)
    assert (data.train.y.sum(axis=1) == 1).all()


def test_an_input_of_bytes_gets_pixels_as_they_are() -> None:
    counts = ("data.train_samples=64", "data.test_samples=64")
    scaled = _load("mnist-ipu", *counts).train.x
    pixels = _load("mnist-ipu", *counts, "model.layers[0].dtype=uint8").train.x
    assert pixels.dtype == np.uint8
    assert pixels.max() == 255
    assert np.array_equal(pixels.astype(np.float32) / np.float32(255), scaled)


def test_samples_take_the_shape_of_the_models_input() -> None:
    data = _load("mnist-dense", "data.train_samples=64", "data.test_samples=64")
    assert data.train.x.shape == (64, 28, 28)
    assert data.train.y.dtype == np.int32
    assert data.train.y[0] == 5


def test_known_sizes_are_those_of_the_files() -> None:
    data = _load("cifar10-ipu-strategy")
    facts = dataset_facts("cifar10")
    assert data.train.x.shape == (facts.train_samples, *(facts.sample_shape or ()))
    assert data.test.x.shape[0] == facts.test_samples
    assert np.bincount(data.train.y.argmax(axis=1)).tolist() == [256] * 10


def test_synthetic_data_suit_the_model_and_the_seed() -> None:
    changes = (
        "data.dataset=synthetic",
        "data.train_samples=64",
        "data.test_samples=64",
    )
    first, again = _load("mnist-ipu", *changes), _load("mnist-ipu", *changes)
    other = _load("mnist-ipu", *changes, "experiment.seed=1")
    assert first.train.x.shape == (64, 28, 28, 1)
    assert (first.train.x == again.train.x).all()
    assert (first.train.x != other.train.x).any()


def _file(path: Path, **arrays: np.ndarray) -> str:
    shape = {
        "x_train": np.zeros((70, 28, 28), np.uint8),
        "y_train": np.arange(70) % 10,
        "x_test": np.zeros((64, 28, 28), np.uint8),
        "y_test": np.arange(64) % 10,
    }
    np.savez(path, **{**shape, **arrays})
    return str(path)


def test_own_file(tmp_path: Path) -> None:
    path = _file(tmp_path / "own.npz")
    data = _load("mnist-ipu", f"data.dataset={path}")
    assert data.train.x.shape == (64, 28, 28, 1)
    assert data.train.count.dropped == 6


def test_own_file_is_checked_without_loading(tmp_path: Path) -> None:
    path = _file(tmp_path / "own.npz", y_train=np.zeros(69, np.int64))
    with pytest.raises(DatasetError, match="differ in length"):
        dataset_facts(path)
    no_test = tmp_path / "no_test.npz"
    np.savez(no_test, x_train=np.zeros(1), y_train=np.zeros(1))
    with pytest.raises(DatasetError, match="no array x_test"):
        dataset_facts(str(no_test))
    text = tmp_path / "text.npz"
    text.write_text("not an archive")
    with pytest.raises(DatasetError, match=r"not an \.npz file"):
        dataset_facts(str(text))


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    objects = np.array([object()] * 70)
    path = _file(tmp_path / "objects.npz", y_train=objects)
    with pytest.raises(DatasetError, match=r"not an \.npz file of arrays"):
        dataset_facts(path)


def test_labels_beyond_the_models_outputs(tmp_path: Path) -> None:
    path = _file(tmp_path / "own.npz", y_train=np.arange(70))
    loaded = load_experiment("mnist-ipu", [f"data.dataset={path}"])
    assert loaded.spec is not None
    with pytest.raises(DatasetError, match="labels go from 0 to 69"):
        load_prepared(loaded.spec)


def test_real_labels_are_met_as_they_are(tmp_path: Path) -> None:
    wanted = np.linspace(0, 1, 700, dtype=np.float64).reshape(70, 10)
    path = _file(tmp_path / "own.npz", y_train=wanted, y_test=wanted[:64])
    changes = (f"data.dataset={path}", "train.loss=mse")
    data = _load("mnist-ipu", *changes)
    assert data.train.y.dtype == np.float32
    assert (data.train.y == wanted[:64].astype(np.float32)).all()


def test_one_hot_labels_of_a_float_type_suit_a_cross_entropy(tmp_path: Path) -> None:
    one_hot = np.eye(10)[np.arange(70) % 10]
    path = _file(tmp_path / "own.npz", y_train=one_hot, y_test=one_hot[:64])
    assert (_load("mnist-ipu", f"data.dataset={path}").train.y == one_hot[:64]).all()
    sparse = ("train.loss=sparse_categorical_crossentropy", "data.labels=sparse")
    loaded = load_experiment("mnist-ipu", [f"data.dataset={path}", *sparse])
    assert [item.hint for item in loaded.problems] == ["use categorical_crossentropy"]


def test_several_whole_numbers_per_sample_are_no_class(tmp_path: Path) -> None:
    one_hot = np.eye(10, dtype=np.int64)[np.arange(70) % 10]
    path = _file(tmp_path / "own.npz", y_train=one_hot, y_test=one_hot[:64])
    (problem,) = load_experiment("mnist-ipu", [f"data.dataset={path}"]).problems
    assert "its labels are 10 whole numbers per sample" in problem.problem


def test_axes_of_samples_are_not_mixed_up(tmp_path: Path) -> None:
    swapped = np.zeros((70, 1, 56, 14), np.uint8)
    path = _file(tmp_path / "own.npz", x_train=swapped, x_test=swapped[:64])
    (problem,) = load_experiment("mnist-ipu", [f"data.dataset={path}"]).problems
    assert "28x28x1 does not suit the data, whose samples are 1x56x14" in str(problem)


def test_real_labels_have_no_classes(tmp_path: Path) -> None:
    path = _file(tmp_path / "own.npz", y_train=np.zeros(70), y_test=np.zeros(64))
    loaded = load_experiment("mnist-ipu", [f"data.dataset={path}"])
    assert loaded.spec is None
    assert [item.where for item in loaded.problems] == ["train.loss"]
    loaded = load_experiment("mnist-ipu", [f"data.dataset={path}", "train.loss=mse"])
    assert "labels are single numbers" in str(loaded.problems[0])
