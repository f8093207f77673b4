"""Losses of models of the user's own: trained as plain Keras trains with them."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, losses, metrics

import ipu_runtime
from tests.runtime.tiny_preset import tiny_spec
from workbench.data.dataset import load_prepared
from workbench.data.epoch_order import training_order
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.models.source_building import trainable_model
from workbench.runs.events import EpochEnded, Evaluated, Event, RunStatus
from workbench.runs.model_builder import build_keras_model
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment
from workbench.script_export import export_script

pytestmark = pytest.mark.slow

TRAINED = (
    "data.train_samples=32",
    "data.test_samples=8",
    "train.optimizer=sgd",
    "train.learning_rate=0.1",
)


def answers() -> keras.Model:
    entry = keras.Input((6,))
    hidden = layers.Dense(8, activation="tanh")(entry)
    return keras.Model(entry, layers.Dense(3, activation="sigmoid")(hidden))


def words() -> keras.Model:
    entry = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=True)(entry)
    return keras.Model(entry, layers.Dense(9)(layers.Dense(6, activation="relu")(x)))


def three_ends() -> keras.Model:
    entry = keras.Input((6,))
    hidden = layers.Dense(8, activation="relu")(entry)
    ends = [
        layers.Dense(4, name="topic_logits")(hidden),
        layers.Dense(1, activation="sigmoid", name="spam")(hidden),
        layers.Dense(2, name="place")(hidden),
    ]
    return keras.Model(entry, ends)


class Hidden(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.inner = layers.Dense(4, activation="relu")
        self.outer = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return keras.ops.sigmoid(self.outer(self.inner(x)))


def hidden() -> keras.Model:
    return Hidden()


def _binary(threshold: float = 0.5) -> Any:
    return metrics.BinaryAccuracy("accuracy", threshold=threshold)


OF_LOGITS = {"from_logits": True}
CASES: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "answers": ((), losses.BinaryCrossentropy, [_binary]),
    "hidden": (("model.input_shape=6",), losses.BinaryCrossentropy, [_binary]),
    "words": (
        (),
        lambda: losses.SparseCategoricalCrossentropy(**OF_LOGITS),
        [lambda: metrics.SparseCategoricalAccuracy("accuracy")],
    ),
    "three_ends": (
        (),
        lambda: [
            losses.SparseCategoricalCrossentropy(**OF_LOGITS),
            losses.BinaryCrossentropy(),
            losses.MeanSquaredError(),
        ],
        [],
    ),
}


@pytest.fixture(autouse=True)
def _installed() -> None:
    ipu_runtime.install()


def _results(spec: ExperimentSpec) -> tuple[list[float], Evaluated]:
    events: list[Event] = []
    status = run_experiment(spec, RunControl(), events.append)
    assert status is RunStatus.FINISHED, events[-1]
    epochs = [event.loss for event in events if isinstance(event, EpochEnded)]
    return epochs, next(event for event in events if isinstance(event, Evaluated))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name == "hidden" else ())
        for name in CASES
    ],
)
def test_the_chosen_losses_train_as_in_plain_keras(name: str) -> None:
    changes, make_loss, accuracy = CASES[name]
    loaded = load_experiment(f"{__file__}:{name}", (*TRAINED, *changes))
    spec = loaded.spec
    assert spec is not None, loaded.problems
    data, order = load_prepared(spec), training_order(spec)
    model = trainable_model(spec.model.model_source, spec.experiment.seed, trust=True)
    model.compile("sgd", make_loss(), metrics=[make() for make in accuracy])
    model.optimizer.learning_rate = 0.1
    steps = []
    for batch in order.indices(1).reshape(-1, spec.data.batch_size):
        x, y = keras.tree.map_structure(
            lambda v, b=batch: v[b], (data.train.x, data.train.y)
        )
        model.reset_metrics()
        steps.append(model.train_on_batch(x, y, return_dict=True)["loss"])
    tested = model.evaluate(
        data.test.x, data.test.y, batch_size=8, verbose=0, return_dict=True
    )

    epochs, evaluated = _results(spec)
    assert epochs == pytest.approx([float(np.mean(steps))], rel=1e-5)
    assert evaluated.loss == pytest.approx(tested["loss"], rel=1e-5)
    right = tested.get("accuracy")
    assert evaluated.accuracy == (right and pytest.approx(right))


def test_the_script_of_several_losses_has_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_experiment(f"{__file__}:three_ends", TRAINED).spec
    assert spec is not None
    epochs, _ = _results(spec)
    script = tmp_path / "script.py"
    script.write_text(export_script(spec))
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert runpy.run_path(str(script))["main"]() == pytest.approx(epochs, rel=1e-5)


def test_an_estimator_has_the_loss_of_logits(tmp_path: Path) -> None:
    spec = tiny_spec(
        tmp_path,
        "train.loss=binary_crossentropy_from_logits",
        "model.layers[4].activation=linear",
        "model.layers[3].rate=0.0",
        "execution.api=ipu_estimator",
        "execution.steps_per_execution=1",
        "train.optimizer=sgd",
        "train.learning_rate=0.0",
        "train.epochs=1",
        "data.train_samples=8",
        "data.test_samples=8",
    )
    _, evaluated = _results(spec)
    data, model = load_prepared(spec), build_keras_model(spec)
    # Its one step has moved the statistics of batches and no weight.
    model(data.train.x, training=True)
    logits, labels = np.float64(model(data.test.x)), data.test.y
    chance = 1 / (1 + np.exp(-logits))
    entropy = labels * np.log(chance) + (1 - labels) * np.log(1 - chance)
    assert evaluated.loss == pytest.approx(-entropy.mean(), rel=1e-5)
    assert evaluated.accuracy == pytest.approx(((chance > 0.5) == labels).mean())
