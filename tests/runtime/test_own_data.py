"""Data of the user's own: what is trained with them, and what their script does."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import ipu_runtime
from workbench.data.dataset import load_prepared
from workbench.data.dataset_facts import DatasetError
from workbench.experiment.experiment_loading import (
    load_experiment,
    recorded_experiment,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.runs.events import EpochEnded, Event, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment
from workbench.script_export import export_script

pytestmark = pytest.mark.slow

PRESET = """
[experiment]
title = "Own data"
[data]
dataset = "{dataset}"
batch_size = 4
labels = "sparse"
[train]
loss = "sparse_categorical_crossentropy"
epochs = 1
[[model.layers]]
name = "entry"
kind = "Input"
shape = {shape}
[[model.layers]]
kind = "Flatten"
name = "flat"
inputs = ["entry"]
[[model.layers]]
kind = "Dense"
name = "out"
units = 3
activation = "softmax"
inputs = ["flat"]
"""
FUNCTIONS = """
import keras
import numpy as np
import tensorflow as tf

import shapes


def model():
    left = keras.Input((4,), name="left")
    right = keras.Input((5,), dtype="int32", name="right")
    words = keras.layers.Embedding(7, 4)(right)
    both = keras.layers.Add()([left, keras.layers.GlobalAveragePooling1D()(words)])
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(both)
    place = keras.layers.Dense(2, activation="softmax", name="place")(both)
    return keras.Model({"left": left, "right": right}, {"kind": kind, "place": place})


def _pairs(count):
    rng = np.random.default_rng(1)
    x = {"right": rng.integers(0, 7, (count, 5)), "left": rng.random((count, 4))}
    y = {"place": rng.integers(0, 2, count), "kind": rng.integers(0, 3, (count, 1))}
    return x, y


def pairs():
    return tf.data.Dataset.from_tensor_slices(_pairs(30)).shuffle(30).batch(7)


def both():
    single = tf.data.Dataset.from_tensor_slices
    return single(_pairs(16)), single(_pairs(8))


def unnamed():
    x, y = _pairs(20)
    return tf.data.Dataset.from_tensor_slices((x["left"], y["kind"]))


def wide():
    return tf.data.Dataset.from_tensors((np.zeros((9, 3)), 5)).repeat(20)


def endless():
    return tf.data.Dataset.from_tensors((np.zeros(4), 1)).repeat()


def array():
    return np.zeros(3)


def texts():
    return tf.data.Dataset.from_tensor_slices((["one", "two"], [0, 1]))
"""


@pytest.fixture(autouse=True)
def _installed() -> None:
    ipu_runtime.install()


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    (tmp_path / "shapes.py").write_text("")
    path = tmp_path / "own_functions.py"
    path.write_text(FUNCTIONS)
    return path


def _preset(folder: Path, dataset: object, shape: list[int]) -> str:
    path = folder / "own.toml"
    path.write_text(PRESET.format(dataset=dataset, shape=shape))
    return str(path)


def _spec(experiment: object, *changes: str) -> ExperimentSpec:
    loaded = load_experiment(str(experiment), changes)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def _losses(spec: ExperimentSpec) -> list[float]:
    events: list[Event] = []
    status = run_experiment(spec, RunControl(), events.append)
    assert status is RunStatus.FINISHED, events[-1]
    return [event.loss for event in events if isinstance(event, EpochEnded)]


def _script_losses(
    spec: ExperimentSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> object:
    script = folder / "script.py"
    script.write_text(export_script(spec))
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(sys, "path", list(sys.path))
    return runpy.run_path(str(script))["main"]()


def _write_images(folder: Path, counts: dict[str, int]) -> None:
    """Write plain images whose grey value tells their class."""
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for image in range(count):
            pixels = np.full((7, 9, 3), 100 * number + image, np.uint8)
            encoded = tf.io.encode_png(pixels).numpy()
            (folder / name / f"{image:02}.png").write_bytes(encoded)


def test_images_take_the_size_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_images(tmp_path / "pets", {"cat": 9, "dog": 8, "eel": 8})
    spec = _spec(_preset(tmp_path, "pets", [6, 5, 3]))
    data = load_prepared(spec)
    assert data.train.x.shape == (20, 6, 5, 3)
    assert data.test.x.shape == (4, 6, 5, 3)
    brightness = np.round(data.train.x[:, 0, 0, 0] * 255).astype(int)
    assert (brightness // 100 == data.train.y).all()
    assert len(set(brightness)) == 20
    found = _script_losses(spec, tmp_path, monkeypatch)
    assert found == pytest.approx(_losses(spec), rel=1e-5)


def test_images_for_testing_have_a_directory_of_their_own(tmp_path: Path) -> None:
    _write_images(tmp_path / "pets" / "train", {"cat": 4, "dog": 4})
    _write_images(tmp_path / "pets" / "test", {"cat": 2, "dog": 2})
    loaded = load_experiment(_preset(tmp_path, "pets", [6, 5, 1]))
    assert loaded.spec is not None
    data = load_prepared(loaded.spec)
    assert (data.train.x.shape, data.test.x.shape) == ((8, 6, 5, 1), (4, 6, 5, 1))


def test_a_broken_image_is_told_before_training(tmp_path: Path) -> None:
    _write_images(tmp_path / "pets", {"cat": 4, "dog": 4})
    (tmp_path / "pets" / "cat" / "00.png").write_text("no image")
    spec = _spec(_preset(tmp_path, "pets", [6, 5, 3]), "train.evaluate=false")
    with pytest.raises(DatasetError, match=r"read: cat/00\.png is no image$"):
        load_prepared(spec)


@pytest.mark.parametrize("names", [("ant", "bee", "cow"), ("0", "1", "2")])
def test_a_table_has_the_losses_of_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    rows = [f"{n}.5,{names[n % 3]},{n / 7}" for n in range(21)]
    (tmp_path / "own.csv").write_text("\n".join(["a, kind,b", *rows]))
    preset = _preset(tmp_path, "own.csv", [2])
    spec = _spec(preset, "data.label_column=kind")
    data = load_prepared(spec)
    assert data.train.x.shape == (16, 2)
    assert ((data.train.x[:, 0] - 0.5) % 3 == data.train.y).all()
    found = _script_losses(spec, tmp_path, monkeypatch)
    assert found == pytest.approx(_losses(spec), rel=1e-5)


@pytest.mark.parametrize(("name", "samples"), [("pairs", (24, 0)), ("both", (16, 8))])
def test_a_function_feeds_several_inputs_and_outputs(
    functions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    samples: tuple[int, int],
) -> None:
    spec = _spec(
        f"{functions}:model",
        f"data.dataset={functions}:{name}",
        "data.train_samples=0",
        "data.test_samples=0",
        f"train.evaluate={str(samples[1] > 0).lower()}",
    )
    data = load_prepared(spec)
    assert data.train.x["right"].shape == (samples[0], 5)
    assert data.train.x["right"].dtype == np.int32
    assert data.train.y["kind"].shape == (samples[0],)
    assert data.test.count.samples == samples[1]
    found = _script_losses(spec, tmp_path, monkeypatch)
    assert found == pytest.approx(_losses(spec), rel=1e-5)


def test_a_recorded_function_is_resumed_while_its_code_is_the_same(
    functions: Path, tmp_path: Path
) -> None:
    preset = _preset(tmp_path, "synthetic", [4])
    spec = _spec(preset, f"data.dataset={functions}:unnamed")
    tables = spec_to_tables(spec)
    again, problems = recorded_experiment(tables, lambda text: None)
    assert again == spec, problems
    functions.write_text(FUNCTIONS + "\n# changed\n")
    again, (problem,) = recorded_experiment(tables, lambda text: None)
    assert again is None
    assert "is not what it was" in str(problem)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pairs", "2 arrays as samples, but the model has 1: entry"),
        ("wide", "9x3, but the model takes 4"),
        ("endless", "data without end; use .take(N)"),
        ("array", "returns ndarray, no tf.data.Dataset"),
        ("texts", "gives texts, not numbers"),
        ("none", "has no function none"),
    ],
)
def test_what_a_function_gives_is_checked_in_the_plan(
    functions: Path, tmp_path: Path, name: str, words: str
) -> None:
    preset = _preset(tmp_path, "synthetic", [4])
    loaded = load_experiment(preset, [f"data.dataset={functions}:{name}"])
    assert loaded.spec is None
    assert loaded.problems[0].where == "data.dataset"
    assert words in str(loaded.problems[0])


def test_class_numbers_of_a_function_are_checked_in_the_plan(
    functions: Path, tmp_path: Path
) -> None:
    preset = _preset(tmp_path, "synthetic", [9, 3])
    loaded = load_experiment(preset, [f"data.dataset={functions}:wide"])
    assert "classes from 5 to 5, but the model has 3" in str(loaded.problems[0])


def test_a_preset_that_names_a_function_runs_it_only_when_trusted(
    functions: Path, tmp_path: Path
) -> None:
    functions.write_text(FUNCTIONS + f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    preset = _preset(tmp_path, "own_functions.py:unnamed", [4])
    loaded = load_experiment(preset)
    assert loaded.spec is None
    assert "--trust" in str(loaded.problems[0])
    assert not (tmp_path / "ran").exists()
    assert load_experiment(preset, trust=True).spec is not None
    assert (tmp_path / "ran").exists()
