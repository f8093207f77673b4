"""Model files as users save them: trained, stateful, for texts."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from workbench.experiment.experiment_loading import load_experiment
from workbench.models.model_source import parse_source
from workbench.models.source_building import trainable_model

pytestmark = pytest.mark.slow


def _trained() -> keras.Model:
    inner = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model = keras.Sequential([keras.Input((8,)), inner, keras.layers.Dense(3)])
    for each in (inner, model):
        each.compile(loss="mse", optimizer="adam", metrics=["mae"])
    model.fit(np.ones((4, 8)), np.ones((4, 3)), verbose=0)
    return model


@pytest.mark.parametrize("ending", ["keras", "h5", "json"])
def test_a_trained_model_is_read_and_keeps_its_weights(
    ending: str, tmp_path: Path
) -> None:
    model, path = _trained(), tmp_path / f"net.{ending}"
    path.write_text(model.to_json()) if ending == "json" else model.save(path)
    loaded = load_experiment(str(path))
    assert loaded.spec is not None, loaded.problems
    assert [layer.kind for layer in loaded.spec.model.layers] == [
        "Input",
        "Dense",
        "Dense",
    ]
    built = trainable_model(parse_source(str(path)), 0, trust=False)
    assert not built.compiled
    if ending != "json":
        for found, saved in zip(built.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(found, saved)


def test_a_layer_with_a_state_of_its_own_is_refused_by_name(tmp_path: Path) -> None:
    entry = keras.Input(batch_shape=(4, 5, 3))
    layer = keras.layers.LSTM(4, stateful=True, name="remembering")
    keras.Model(entry, layer(entry)).save(path := tmp_path / "net.keras")
    (problem,) = load_experiment(str(path)).problems
    assert "remembering keeps its state from batch to batch" in problem.problem


def test_a_model_for_texts_is_refused_by_name(tmp_path: Path) -> None:
    entry = keras.Input((), dtype="string", name="words")
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"])
    model = keras.Model(entry, keras.layers.Embedding(4, 4)(lookup(entry)))
    model.save(path := tmp_path / "net.keras")
    (problem,) = load_experiment(str(path)).problems
    assert "words takes texts, which the device has none of" in problem.problem
